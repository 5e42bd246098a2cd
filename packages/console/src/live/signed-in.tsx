import type { ReactNode } from "react";
import { HeartbeatProvider } from "../maker/heartbeat.tsx";
import { LiveProvider } from "./live.tsx";

/** What runs for as long as somebody is signed in, whichever page they see. */
export default function SignedIn({ children }: { children: ReactNode }) {
  return (
    <LiveProvider>
      <HeartbeatProvider>{children}</HeartbeatProvider>
    </LiveProvider>
  );
}
