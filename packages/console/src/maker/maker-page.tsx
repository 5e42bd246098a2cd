import { lazy, type ReactNode, Suspense, useEffect, useMemo, useState } from "react";
import type { MarketAsset } from "@rfq-custody/client";
import { useConnection } from "../live/connection.ts";
import { useOwnQuotes } from "../live/live.tsx";
import type { OwnQuotes } from "../live/quote-events.ts";
import { useTickers } from "../markets.ts";
import { useClient, useRead } from "../session/session.tsx";
import { ActionButton } from "../ui/actions.tsx";
import { clockNow } from "../ui/clock.ts";
import { SelectField } from "../ui/choices.tsx";
import { TextField } from "../ui/form.tsx";
import { Loading, Place } from "../ui/place.tsx";
import { say } from "../ui/toasts.tsx";
import { assetKey, parsePrice, parseUnits } from "../units.ts";
import { Grid } from "./grid.tsx";
import { useHeartbeat } from "./heartbeat.tsx";
import { atRisk, defaultPrice } from "./quoting.ts";
import { Exposure, Results, Today } from "./results.tsx";
import { Safeguards } from "./safeguards.tsx";
import type { Terms } from "./use-offer.ts";

const MarketSheet = lazy(() => import("../market/market-sheet.tsx"));

const LIVES = { 15: "15 s", 30: "30 s", 60: "1 min", 120: "2 min", 300: "5 min" };
const PING_MS = 10_000;
/** The most quotes that one call takes. */
const BATCH = 50;

export default function MakerPage() {
  const [spread, setSpread] = useState("0.8");
  const [collar, setCollar] = useState("5");
  const [most, setMost] = useState("1,000");
  const [life, setLife] = useState("60");
  const [looked, setLooked] = useState<MarketAsset | null>(null);
  const { arm } = useHeartbeat();
  const quotes = useOwnQuotes();
  // Every row renders again when the terms change.
  const terms = useMemo<Terms>(
    () => ({
      spread: parsePrice(spread),
      collar: parsePrice(collar),
      // A limit that cannot be read lets nothing pass.
      most: parseUnits(most) ?? 0n,
      lifeSecs: Number(life),
      arm,
    }),
    [spread, collar, most, life, arm],
  );
  const number = (label: string, value: string, set: (text: string) => void, isRead: boolean) => (
    <TextField
      label={label}
      inputMode="decimal"
      value={value}
      aria-invalid={!isRead}
      onChange={({ target }) => set(target.value)}
    />
  );
  return (
    <>
      <Bar open={quotes.open}>
        {number("Spread around last, ¢", spread, setSpread, terms.spread !== null)}
        {number("Ask twice beyond, ¢", collar, setCollar, terms.collar !== null)}
        {number("Most at risk per quote, USDC", most, setMost, terms.most !== 0n)}
        <SelectField label="Firm for" value={life} onChange={setLife} options={LIVES} />
        <ReplaceAll open={quotes.open} terms={terms} />
      </Bar>
      <div className="split making">
        <section aria-label="Requests">
          <Place of="the requests">
            <Grid terms={terms} quotes={quotes} look={setLooked} />
          </Place>
          <p className="muted keys">
            <kbd>Enter</kbd> quote, next · <kbd>↑</kbd> <kbd>↓</kbd> row · <kbd>+</kbd> <kbd>−</kbd>{" "}
            0.1¢ · <kbd>Esc</kbd> cancel this quote · <kbd>Shift Esc</kbd> cancel all
          </p>
        </section>
        <aside>
          <Exposure quotes={quotes} />
          <Place of="your safeguards">
            <Safeguards />
          </Place>
          <Place of="your trades of today">
            <Today />
          </Place>
          <Place of="your results">
            <Results quotes={quotes} />
          </Place>
        </aside>
      </div>
      {looked === null ? null : (
        <Suspense fallback={<Loading what="the market" />}>
          <Place of="the market">
            <MarketSheet asset={looked} close={() => setLooked(null)} />
          </Place>
        </Suspense>
      )}
    </>
  );
}

const countOf = ({ length }: OwnQuotes["open"]) => (length === 0 ? "" : ` (${length})`);

/** Stays in view, and keeps its place whatever happens: what cancels everything is in it. */
function Bar({ open, children }: { open: OwnQuotes["open"]; children: ReactNode }) {
  const client = useClient();
  const connection = useConnection();
  const latency = useRead(
    ["latency"],
    async () => {
      const before = performance.now();
      await client.time();
      return Math.round(performance.now() - before);
    },
    { refetchEvery: PING_MS, optional: true },
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
    <div className="making-bar">
      <span className={`badge ${connection}`} title="Time to the service and back">
        {connection === "live" && latency !== undefined ? `${latency} ms` : connection}
      </span>
      {children}
      <ActionButton
        kind="danger"
        label={`Cancel all quotes${countOf(open)}`}
        run={async () => {
          const { cancelled } = await client.rfq.cancelQuotes();
          say(`${cancelled} quotes cancelled.`);
        }}
      />
    </div>
  );
}

/** Moves each open quote to the default price of now, firm for a full time again. */
function ReplaceAll({ open, terms }: { open: OwnQuotes["open"]; terms: Terms }) {
  const client = useClient();
  const tickers = useTickers();
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
    say(`${replaced} of ${open.length} quotes replaced.`);
  };
  return <ActionButton label={`Replace all${countOf(open)}`} run={replace} />;
}
