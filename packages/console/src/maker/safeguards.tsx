/** What ends the maker's quotes when the maker is away, or loses too much. */
import type { Protection } from "@rfq-custody/client";
import { useEffect, useRef, useState } from "react";
import { useClient, useRead } from "../session/session.tsx";
import { ActionButton } from "../ui/form.tsx";
import { When } from "../ui/values.tsx";
import { Part } from "../ui/records.tsx";
import { formatTokens } from "../units.ts";

/** While the page is there, the timer is set again before it ends. */
const TIMEOUT_SECS = 30;
const BEAT_MS = 10_000;

/** Cancels the quotes of the user's sessions if this page goes away, once it has quoted. */
export function useHeartbeat() {
  const client = useClient();
  const [mode, setMode] = useState<"idle" | "on" | "off">("idle");
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (mode !== "on") return undefined;
    const beat = () =>
      client.rfq.cancelAfter({ timeout_secs: TIMEOUT_SECS }).then(() => setError(null), setError);
    void beat();
    const timer = setInterval(() => void beat(), BEAT_MS);
    return () => clearInterval(timer);
  }, [mode, client]);
  const switchTo = async (next: "on" | "off") => {
    // An earlier visit's timer may have passed, and then no quote is placed until this call.
    await client.rfq.cancelAfter({ timeout_secs: next === "on" ? TIMEOUT_SECS : 0 });
    setError(null);
    setMode(next);
  };
  // Quotes of one moment wait for one call. One that failed is made again.
  const arming = useRef<Promise<void> | null>(null);
  const arm = async () => {
    if (mode === "idle")
      await (arming.current ??= switchTo("on").finally(() => (arming.current = null)));
  };
  return { mode, error, arm, switchTo };
}

export function Safeguards({ heartbeat }: { heartbeat: ReturnType<typeof useHeartbeat> }) {
  const client = useClient();
  const protection = useRead(["protection"], (of) => of.rfq.protection());
  const { mode, error, switchTo } = heartbeat;
  const stays = mode === "off";
  return (
    <Part title="Safeguards">
      <p role="status">
        When you leave this page, lose the connection or your session ends,{" "}
        {stays
          ? "your open quotes stay firm until their time is over."
          : `your open quotes are cancelled within ${TIMEOUT_SECS} s.`}{" "}
        <ActionButton
          kind="link"
          label={stays ? "Cancel them then" : "Let them stay"}
          run={() => switchTo(stays ? "on" : "off")}
        />
      </p>
      {error === null ? null : (
        <p className="problem" role="alert">
          The service does not hear this page. Your quotes are about to be cancelled.
        </p>
      )}
      <p>A quote that reaches the service after more than a second is not placed.</p>
      {protection === undefined ? null : <ProtectionText protection={protection} />}
      <details>
        <summary>Freeze the account…</summary>
        <p>
          Cancels all quotes and requests, and ends all sessions. You unfreeze it with your
          authenticator code.
        </p>
        <ActionButton kind="danger" label="Freeze the account" run={() => client.auth.freeze()} />
      </details>
    </Part>
  );
}

function ProtectionText({ protection }: { protection: Protection }) {
  const client = useClient();
  const { tripped_at, blocked_until, max_matches, max_usdc, window_secs } = protection;
  if (tripped_at !== null)
    return (
      <p className="problem" role="alert">
        Your protection cancelled all quotes <When at={tripped_at} />. No quote is placed until{" "}
        {blocked_until === null ? "you reset it" : <When at={blocked_until} />}.{" "}
        <ActionButton kind="link" label="Reset it" run={() => client.rfq.resetProtection()} />
      </p>
    );
  const trades = max_matches === null ? "" : `${max_matches} trades`;
  const usdc = max_usdc === null ? "" : `${formatTokens(max_usdc)} USDC`;
  const limit = trades !== "" && usdc !== "" ? `${trades} or ${usdc}` : trades + usdc;
  if (limit === "") return null;
  return <p>{`A trade that reaches ${limit} in ${window_secs} s cancels all other quotes.`}</p>;
}
