import { type Connection, useConnection } from "./connection.ts";

const CONNECTIONS: Record<Connection, string> = {
  visitor: "",
  connecting: "Connecting…",
  live: "Live",
  lost: "Reconnecting…",
  ended: "Session ended",
};

export function ConnectionBadge() {
  const connection = useConnection();
  return (
    <span className={`badge ${connection}`} role="status">
      {CONNECTIONS[connection]}
    </span>
  );
}
