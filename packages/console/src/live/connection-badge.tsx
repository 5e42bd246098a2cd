import { type Connection, useConnection } from "./live.tsx";

const TEXTS: Record<Connection, string> = {
  connecting: "Connecting…",
  live: "Live",
  lost: "Connection lost, reconnecting…",
  ended: "Stream ended. Sign in again.",
};

export function ConnectionBadge() {
  const connection = useConnection();
  return (
    <span className={`badge ${connection}`} role="status">
      {TEXTS[connection]}
    </span>
  );
}
