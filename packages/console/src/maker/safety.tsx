/** What stops quotes: the timer of cancel-after, protection, and the red button. */
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useClient } from "../session/session.tsx";
import { ActionButton } from "../ui/button.tsx";
import { Countdown } from "../ui/countdown.tsx";
import { formatTime, formatUnits } from "../units.ts";

/** While this page is open and connected, the timer is set again before it ends. */
const TIMEOUT_SECS = 30;
const BEAT_MS = 10_000;

export function Safety() {
  const client = useClient();
  const { data: protection } = useQuery({
    queryKey: ["protection"],
    queryFn: () => client.rfq.protection(),
  });
  return (
    <section className="card" aria-label="Safety">
      <h2>Safety</h2>
      <div className="row middle">
        <Heartbeat />
        <p role="status">
          {protection === undefined
            ? "Loading protection…"
            : protection.tripped_at === null
              ? protection.max_matches === null && protection.max_usdc === null
                ? "Protection is off."
                : `Protection: ${limitsOf(protection)} in ${protection.window_secs} s.`
              : `Protection tripped at ${formatTime(protection.tripped_at)}.`}
        </p>
        <StopButton />
      </div>
    </section>
  );
}

function limitsOf({
  max_matches,
  max_usdc,
}: {
  max_matches: number | null;
  max_usdc: bigint | null;
}): string {
  const limits = [
    ...(max_matches === null ? [] : [`${max_matches} matches`]),
    ...(max_usdc === null ? [] : [`${formatUnits(max_usdc)} USDC`]),
  ];
  return `at most ${limits.join(" or ")}`;
}

function Heartbeat() {
  const client = useClient();
  const [on, setOn] = useState(false);
  const [cancelAt, setCancelAt] = useState<string | null>(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    if (!on) return undefined;
    const beat = () =>
      client.rfq.cancelAfter({ timeout_secs: TIMEOUT_SECS }).then(
        ({ cancel_at }) => {
          setCancelAt(cancel_at);
          setFailed(false);
        },
        () => setFailed(true),
      );
    void beat();
    const timer = setInterval(() => void beat(), BEAT_MS);
    return () => clearInterval(timer);
  }, [on, client]);
  if (!on)
    return (
      <p>
        Your quotes stay if this page loses its connection.{" "}
        <button type="button" onClick={() => setOn(true)}>
          Cancel them after {TIMEOUT_SECS} s without it
        </button>
      </p>
    );
  return (
    <div>
      <p role="status">
        {failed ? "The heartbeat failed. " : "The heartbeat is on. "}
        {cancelAt === null ? null : (
          <>
            Quotes of your sessions are cancelled in <Countdown until={cancelAt} /> without it.
          </>
        )}
      </p>
      <ActionButton
        label="Turn it off"
        run={async () => {
          await client.rfq.cancelAfter({ timeout_secs: 0 });
          setOn(false);
          setCancelAt(null);
        }}
      />
    </div>
  );
}

/** A click cancels every quote. Holding the button for this time also freezes the account. */
const HOLD_MS = 2_000;

function StopButton() {
  const client = useClient();
  const queries = useQueryClient();
  const [state, setState] = useState("");
  const [pressedAt, setPressedAt] = useState<number | null>(null);
  const press = () => setPressedAt((at) => at ?? performance.now());
  const release = () => {
    if (pressedAt === null) return;
    const held = performance.now() - pressedAt >= HOLD_MS;
    setPressedAt(null);
    const stop = async () => {
      const { cancelled } = await client.rfq.cancelQuotes();
      setState(`${cancelled} quotes cancelled.`);
      if (held) {
        await client.auth.freeze();
        setState("Quotes cancelled, account frozen. Unfreeze it with your authenticator code.");
      }
      await queries.invalidateQueries();
    };
    stop().catch((error: unknown) => setState(error instanceof Error ? error.message : "Failed."));
  };
  return (
    <div>
      <button
        type="button"
        className="danger big"
        onPointerDown={press}
        onPointerUp={release}
        onPointerLeave={() => setPressedAt(null)}
        onKeyDown={({ key }) => (key === "Enter" || key === " " ? press() : undefined)}
        onKeyUp={({ key }) => (key === "Enter" || key === " " ? release() : undefined)}
      >
        {pressedAt === null ? "Cancel all quotes" : "Keep holding to freeze…"}
      </button>
      <p className="hint">Hold it for two seconds to freeze the account too.</p>
      <p role="status">{state}</p>
    </div>
  );
}
