/** Whether what is shown follows the service. */
import { createContext, use } from "react";

/** A visitor has no stream, and sees what is read every few seconds. */
export type Connection = "visitor" | "connecting" | "live" | "lost" | "ended";

export const ConnectionContext = createContext<Connection>("visitor");

export const useConnection = () => use(ConnectionContext);

/** Whether what is shown may be old. */
export function useIsStale(): boolean {
  const connection = useConnection();
  return connection !== "live" && connection !== "visitor";
}
