/**
 * Cancels the quotes of the user's sessions if the console goes away, once it has quoted. It beats
 * in the whole console, so a look at another page ends no quote.
 */
import { createContext, type ReactNode, use, useEffect, useMemo, useRef, useState } from "react";
import { useClient } from "../session/session.tsx";

/** While the console is there, the timer is set again before it ends. */
export const TIMEOUT_SECS = 30;
const BEAT_MS = 10_000;

type Heartbeat = {
  mode: "idle" | "on" | "off";
  /** Why the service does not hear it. */
  error: unknown;
  /** Called before each quote. */
  arm: () => Promise<void>;
  switchTo: (next: "on" | "off") => Promise<void>;
};

const HeartbeatContext = createContext<Heartbeat | null>(null);

export function useHeartbeat(): Heartbeat {
  const heartbeat = use(HeartbeatContext);
  if (heartbeat === null) throw new Error("Nobody is signed in.");
  return heartbeat;
}

export function HeartbeatProvider({ children }: { children: ReactNode }) {
  const client = useClient();
  const [mode, setMode] = useState<Heartbeat["mode"]>("idle");
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (mode !== "on") return undefined;
    const beat = () =>
      client.rfq.cancelAfter({ timeout_secs: TIMEOUT_SECS }).then(() => setError(null), setError);
    void beat();
    const timer = setInterval(() => void beat(), BEAT_MS);
    return () => clearInterval(timer);
  }, [mode, client]);
  // Quotes of one moment wait for one call. One that failed is made again.
  const arming = useRef<Promise<void> | null>(null);
  const heartbeat = useMemo<Heartbeat>(() => {
    const switchTo = async (next: "on" | "off") => {
      // An earlier visit's timer may have passed, and then no quote is placed until this call.
      await client.rfq.cancelAfter({ timeout_secs: next === "on" ? TIMEOUT_SECS : 0 });
      setError(null);
      setMode(next);
    };
    const arm = async () => {
      if (mode === "idle")
        await (arming.current ??= switchTo("on").finally(() => (arming.current = null)));
    };
    return { mode, error, arm, switchTo };
  }, [mode, error, client]);
  return <HeartbeatContext value={heartbeat}>{children}</HeartbeatContext>;
}
