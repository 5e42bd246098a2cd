/** What ends the maker's quotes when the maker is away, or loses too much. */
import type { Protection } from "@rfq-custody/client";
import { useClient, useRead } from "../session/session.tsx";
import { ActionButton } from "../ui/actions.tsx";
import { When } from "../ui/values.tsx";
import { Part } from "../ui/records.tsx";
import { formatTokens } from "../units.ts";
import { TIMEOUT_SECS, useHeartbeat } from "./heartbeat.tsx";

export function Safeguards() {
  const client = useClient();
  const protection = useRead(["protection"], (of) => of.rfq.protection());
  const { mode, error, switchTo } = useHeartbeat();
  const stays = mode === "off";
  return (
    <Part title="Safeguards">
      <p role="status">
        When you close the console, lose the connection or your session ends,{" "}
        {stays
          ? "your open quotes stay firm until their time is over."
          : `your open quotes are cancelled within ${TIMEOUT_SECS} s.`}{" "}
        <ActionButton
          kind="link"
          label={stays ? "Cancel them then" : "Let them stay"}
          done={stays ? "Your quotes end with the connection." : "Your quotes stay firm."}
          run={() => switchTo(stays ? "on" : "off")}
        />
      </p>
      {error === null ? null : (
        <p className="problem" role="alert">
          The service does not hear the console. Your quotes are about to be cancelled.
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
        <ActionButton
          kind="danger"
          label="Freeze the account"
          ask="All quotes, requests and sessions end now."
          run={() => client.auth.freeze()}
        />
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
