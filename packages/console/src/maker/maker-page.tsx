import { type ReactNode, useEffect, useMemo, useState } from "react";
import { useConnection, useOwnQuotes } from "../live/live.tsx";
import type { OwnQuotes } from "../live/quote-events.ts";
import { useTickers } from "../markets.ts";
import { useClient, useList, useRead } from "../session/session.tsx";
import { ActionButton, SelectField, TextField } from "../ui/form.tsx";
import { clockNow } from "../ui/clock.ts";
import { Part } from "../ui/records.tsx";
import { assetKey, formatCents, parsePrice, parseUnits } from "../units.ts";
import { Grid, type Terms } from "./grid.tsx";
import { atRisk, averages, defaultPrice, priceAfter } from "./quoting.ts";
import { Safeguards, useHeartbeat } from "./safeguards.tsx";

const LIVES = { 15: "15 s", 30: "30 s", 60: "1 min", 120: "2 min", 300: "5 min" };
const PING_MS = 10_000;
/** The most quotes that one call takes. */
const BATCH = 50;
const NEWEST = 500;
const BARS = 12;
const RESULTS_MS = 15_000;

export default function MakerPage() {
  const client = useClient();
  const [spread, setSpread] = useState("0.8");
  const [most, setMost] = useState("1,000");
  const [life, setLife] = useState("60");
  const heartbeat = useHeartbeat();
  const quotes = useOwnQuotes();
  const terms = useMemo<Terms>(
    () => ({
      spread: parsePrice(spread),
      // A limit that cannot be read lets nothing pass.
      most: parseUnits(most) ?? 0n,
      lifeSecs: Number(life),
      arm: heartbeat.arm,
    }),
    // `arm` changes with these two only. Every row renders again when the terms change.
    [spread, most, life, heartbeat.mode, client],
  );
  return (
    <>
      <Bar open={quotes.open}>
        <TextField
          label="Spread around last, ¢"
          inputMode="decimal"
          value={spread}
          aria-invalid={terms.spread === null}
          onChange={({ target }) => setSpread(target.value)}
        />
        <TextField
          label="Most at risk per quote, USDC"
          inputMode="decimal"
          value={most}
          aria-invalid={terms.most === 0n}
          onChange={({ target }) => setMost(target.value)}
        />
        <SelectField label="Firm for" value={life} onChange={setLife} options={LIVES} />
        <ReplaceAll open={quotes.open} terms={terms} />
      </Bar>
      <div className="split making">
        <section aria-label="Requests">
          <Grid terms={terms} quotes={quotes} />
          <p className="muted keys">
            <kbd>Enter</kbd> quote, next · <kbd>↑</kbd> <kbd>↓</kbd> row · <kbd>Esc</kbd> cancel
            this quote · <kbd>Shift Esc</kbd> cancel all
          </p>
        </section>
        <aside>
          <Safeguards heartbeat={heartbeat} />
          <Results quotes={quotes} />
        </aside>
      </div>
    </>
  );
}

const countOf = ({ length }: OwnQuotes["open"]) => (length === 0 ? "" : ` (${length})`);

/** Stays in view: the connection, and what cancels everything. */
function Bar({ open, children }: { open: OwnQuotes["open"]; children: ReactNode }) {
  const client = useClient();
  const connection = useConnection();
  const [said, setSaid] = useState("");
  const latency = useRead(
    ["latency"],
    async () => {
      const before = performance.now();
      await client.time();
      return Math.round(performance.now() - before);
    },
    { refetchEvery: PING_MS },
  );
  useEffect(() => {
    const cancelAll = ({ key, shiftKey }: KeyboardEvent) => {
      if (key === "Escape" && shiftKey)
        document.querySelector<HTMLElement>(".making-bar .danger")?.click();
    };
    addEventListener("keydown", cancelAll);
    return () => removeEventListener("keydown", cancelAll);
  }, []);
  return (
    <div className="filters making-bar">
      <span className={`badge ${connection}`} title="Time to the service and back">
        {connection === "live" && latency !== undefined ? `${latency} ms` : connection}
      </span>
      {children}
      <p role="status" className="grow">
        {said}
      </p>
      <ActionButton
        kind="danger"
        label={`Cancel all quotes${countOf(open)}`}
        run={async () => {
          const { cancelled } = await client.rfq.cancelQuotes();
          setSaid(`${cancelled} quotes cancelled.`);
        }}
      />
    </div>
  );
}

/** Moves each open quote to the default price of now, firm for a full time again. */
function ReplaceAll({ open, terms }: { open: OwnQuotes["open"]; terms: Terms }) {
  const client = useClient();
  const tickers = useTickers();
  const [said, setSaid] = useState("");
  const replace = async () => {
    const { spread, most, lifeSecs: expires_in_secs } = terms;
    const items = open.flatMap(({ quote_id: replaces, request_id, side, amount, ...quote }) => {
      const last = tickers.get(assetKey(quote))?.last_price ?? null;
      const price = defaultPrice(side, last, spread);
      if (price === null || atRisk({ amount }, side, price) > most) return [];
      if (Date.parse(quote.expires_at) <= clockNow()) return [];
      return [{ request_id, side, price, replaces, expires_in_secs }];
    });
    await terms.arm();
    let replaced = 0;
    for (let from = 0; from < items.length; from += BATCH) {
      const { results } = await client.rfq.quoteMany({ quotes: items.slice(from, from + BATCH) });
      replaced += results.filter(({ quote }) => quote !== null).length;
    }
    setSaid(`${replaced} of ${open.length} quotes replaced.`);
  };
  if (open.length === 0) return null;
  return (
    <>
      <ActionButton label={`Replace all${countOf(open)}`} run={replace} />
      <p role="status">{said}</p>
    </>
  );
}

/** How the maker's quotes did: how many traded, and where the price went afterwards. */
function Results({ quotes: { ended } }: { quotes: OwnQuotes }) {
  const tickers = useTickers();
  const quotes = useList(
    ["matches", "quotes"],
    (client) => client.rfq.myQuotes({ limit: NEWEST }),
    { refetchEvery: RESULTS_MS },
  );
  // One that the maker took back or replaced says nothing about its price.
  const decided = (quotes ?? []).filter(({ status }) => !["open", "cancelled"].includes(status));
  const won = decided.map(({ status }) => Number(status === "accepted")).toReversed();
  const lost = ended.flatMap(({ price, winning_price: best }) =>
    best === null ? [] : [Math.abs(price - best)],
  );
  const moved = decided.toReversed().flatMap(({ status, side, price, created_at, ...asset }) => {
    const ticker = tickers.get(assetKey(asset));
    if (status !== "accepted" || ticker === undefined) return [];
    const after = priceAfter(ticker, created_at, clockNow());
    return after === null ? [] : [side === "Bid" ? price - after : after - price];
  });
  const [move = 0] = averages(moved, 1);
  const [missed] = averages(lost, 1);
  return (
    <Part title="Results">
      {quotes !== undefined && won.length === 0 ? (
        <p className="empty">No quote has ended yet. Price a request to begin.</p>
      ) : null}
      {won.length === 0 ? null : (
        <Bars
          title={`${won.filter(Boolean).length} of your last ${won.length} quotes traded`}
          values={averages(won, BARS)}
        >
          {missed === undefined
            ? "Oldest on the left."
            : `Oldest on the left. Lost ones were ${cents(missed)} away on average.`}
        </Bars>
      )}
      {moved.length === 0 ? null : (
        <Bars
          title={`${move < 0 ? "−" : "+"}${cents(Math.abs(move))} an hour after your trades`}
          values={averages(moved, BARS)}
        >
          Above the line the price moved your way.
        </Bars>
      )}
    </Part>
  );
}

function cents(average: number): string {
  return `${formatCents(Math.round(average / 1_000) * 1_000)}¢`;
}

/** Bars above and below a line. The title says in words what they show. */
function Bars(props: { title: string; values: readonly number[]; children: string }) {
  const { title, values, children } = props;
  const high = Math.max(0, ...values);
  const low = Math.min(0, ...values);
  const scale = 40 / (high - low || 1);
  return (
    <figure>
      <figcaption>{title}</figcaption>
      <svg width="100%" height="64" viewBox="0 0 120 40" preserveAspectRatio="none" aria-hidden>
        {values.map((value, index) => (
          <rect
            // The place is what identifies a bar.
            key={index}
            className={value < 0 ? "down" : "up"}
            fill="currentColor"
            x={index * 10 + 2}
            width="6"
            y={(high - Math.max(0, value)) * scale}
            height={Math.max(1, Math.abs(value) * scale)}
          />
        ))}
      </svg>
      <small className="hint">{children}</small>
    </figure>
  );
}
