/** Asks for quotes on one outcome, shows them, and shows what was settled. */
import type { MarketAsset, Match, QuoteRequest, RequestSide } from "@rfq-custody/client";
import { useEffect, useRef, useState } from "react";
import { useMyRequests } from "../portfolio/open-requests.tsx";
import { useAct, useClient } from "../session/session.tsx";
import { useConnection } from "../live/live.tsx";
import { CheckField, Choice, Form, type FormValues, SelectField, TextField } from "../ui/form.tsx";
import { Facts } from "../ui/records.tsx";
import { usdcOf, When } from "../ui/values.tsx";
import {
  assetKey,
  exactUnits,
  formatPrice,
  formatTokens,
  formatUnits,
  parseUnits,
  roughPrice,
  toCent,
  tokensFor,
  worth,
} from "../units.ts";
import { useBalance } from "../wallet/balances.tsx";
import { Quotes } from "./quotes.tsx";
import { totalOf } from "./shown-quote.ts";

const SIDES = { Bid: "Buy", Ask: "Sell", TwoWay: "Both" } as const;
const UNITS = { tokens: "tokens", usdc: "USDC" } as const;
type Unit = keyof typeof UNITS;
const QUICK = ["100", "500", "1,000"];

type TicketProps = {
  asset: MarketAsset;
  outcome: string;
  lastPrice: number | null;
  feeBps: bigint;
};

export function Ticket(ticket: TicketProps) {
  const { asset, outcome, lastPrice } = ticket;
  const connection = useConnection();
  const [receipt, setReceipt] = useState<Match | null>(null);
  const requests = useMyRequests();
  const request = requests?.find((one) => assetKey(one) === assetKey(asset));
  useStandingMatch(request, setReceipt);
  if (receipt !== null)
    return <Receipt match={receipt} outcome={outcome} close={() => setReceipt(null)} />;
  // The form must not be there for a moment and then give way to an open request.
  if (requests === undefined) return <p role="status">Loading your requests…</p>;
  return (
    <>
      {connection === "lost" ? (
        <p role="status" className="warn card">
          The connection is lost. Your requests and their quotes go on without this page.
        </p>
      ) : null}
      {request === undefined ? (
        <TicketForm {...ticket} />
      ) : (
        <Quotes request={request} outcome={outcome} lastPrice={lastPrice} onMatch={setReceipt} />
      )}
    </>
  );
}

/** A request that ends while its limit stands may have been matched without a click. */
function useStandingMatch(
  request: QuoteRequest | undefined,
  onMatch: (match: Match) => void,
): void {
  const client = useClient();
  const before = useRef<QuoteRequest>(undefined);
  useEffect(() => {
    const last = before.current;
    before.current = request;
    if (last === undefined || last.request_id === request?.request_id) return;
    if (typeof last.accept_price !== "number") return;
    const find = async () => {
      const { items } = await client.rfq.matches({ limit: 10 }).page();
      const match = items.find(({ request_id }) => request_id === last.request_id);
      if (match !== undefined) onMatch(match);
    };
    // The portfolio shows the trade in any case.
    find().catch(() => undefined);
  }, [client, request, onMatch]);
}

type ReceiptProps = { match: Match; outcome: string; close: () => void };

function Receipt({ match, outcome, close }: ReceiptProps) {
  const buys = match.side === "Bid";
  return (
    <section className="card ticket receipt" aria-label="Settled">
      <div role="status">
        <h2>
          <span aria-hidden="true">✓</span> {buys ? "Bought" : "Sold"} {formatTokens(match.amount)}{" "}
          {outcome}
        </h2>
      </div>
      <Facts
        facts={{
          Price: formatPrice(match.price),
          Fee: match.fee === 0n ? "" : `${formatUnits(match.fee)} USDC`,
          Settled: <When at={match.created_at} />,
        }}
        total={[`You ${buys ? "paid" : "got"}`, `${formatUnits(totalOf(match))} USDC`]}
      />
      <p>
        <a href={`#wallet/${match.match_id}`}>Its ledger entries</a>
      </p>
      <button type="button" className="primary big" onClick={close}>
        Trade again
      </button>
    </section>
  );
}

function TicketForm({ asset, outcome, lastPrice, feeBps }: TicketProps) {
  const act = useAct("my-requests");
  const [side, setSide] = useState<RequestSide>("Bid");
  const [unit, setUnit] = useState<Unit>("tokens");
  const [size, setSize] = useState("");
  const usable = useBalance(side === "Bid" ? undefined : asset)?.balance;
  const hint =
    usable === undefined || side === "TwoWay"
      ? undefined
      : `You can use ${formatTokens(toCent(usable))} ${side === "Bid" ? "USDC" : outcome}`;
  const largest = () => {
    setUnit(side === "Bid" ? "usdc" : "tokens");
    setSize(exactUnits(usable ?? 0n));
  };
  return (
    <section className="card ticket" aria-label="Ask for quotes">
      <h2>Ask for quotes on {outcome}</h2>
      <Form
        label="Ask for quotes"
        action="Ask for quotes"
        submit={(values) =>
          act((client) => client.rfq.request({ ...asset, side, ...termsOf(values, unit) }))
        }
      >
        <Choice label="Side" options={SIDES} value={side} onChange={setSide} />
        <div className="row">
          <TextField
            label="Size"
            name="size"
            inputMode="decimal"
            placeholder="100"
            autoComplete="off"
            required
            value={size}
            onChange={({ target }) => setSize(target.value)}
            hint={hint}
          />
          <SelectField label="Size in" value={unit} onChange={setUnit} options={UNITS} />
        </div>
        <p className="chips">
          {QUICK.map((text) => (
            <button key={text} type="button" className="chip" onClick={() => setSize(text)}>
              {text}
            </button>
          ))}
          {hint === undefined || usable === 0n ? null : (
            <button type="button" className="chip" onClick={largest}>
              Max
            </button>
          )}
        </p>
        {side === "TwoWay" ? null : (
          <TextField
            label="Take it at, ¢ or better"
            name="limit"
            inputMode="decimal"
            autoComplete="off"
            hint="Optional. The first quote that is as good is taken at once. Fees come on top."
          />
        )}
        <Estimate {...{ size, unit, side, outcome, lastPrice, feeBps }} />
        <details>
          <summary>More</summary>
          <TextField
            label="Open for minutes"
            name="minutes"
            inputMode="numeric"
            defaultValue="5"
            required
          />
          <CheckField label="Show makers my user id" name="disclose" />
        </details>
      </Form>
      <p className="hint">
        Makers see the market, the side and the size. You pay nothing until you accept a price.
      </p>
    </section>
  );
}

function termsOf(values: FormValues, unit: Unit) {
  const amount = values.units("size");
  return {
    ...(unit === "usdc" ? { usdc_amount: amount } : { amount }),
    expires_in_secs: values.integer("minutes") * 60,
    disclose_identity: values.has("disclose"),
    accept_price: values.price("limit") ?? null,
  };
}

type EstimateProps = Omit<TicketProps, "asset"> & {
  size: string;
  unit: Unit;
  side: RequestSide;
};

/** What the size costs or brings at the last price. A quote decides. */
function Estimate({ size, unit, side, outcome, lastPrice, feeBps }: EstimateProps) {
  const amount = parseUnits(size);
  if (amount === null || lastPrice === null) return null;
  const tokens = unit === "tokens" ? amount : tokensFor(amount, lastPrice);
  const usdc = unit === "usdc" ? amount : worth(amount, lastPrice);
  const fee = (usdc * feeBps + 9_999n) / 10_000n;
  const buys = side === "Bid";
  const total = usdcOf(buys ? usdc + fee : usdc - fee);
  return (
    <div role="status">
      <Facts
        facts={{
          [`${formatTokens(toCent(tokens))} at the last price, ${roughPrice(lastPrice)}`]:
            usdcOf(usdc),
          Fee: fee === 0n || side === "TwoWay" ? "" : usdcOf(fee),
          [`If ${outcome}, you get`]: buys ? usdcOf(tokens) : "",
        }}
        total={side === "TwoWay" ? undefined : [`You ${buys ? "pay" : "get"} about, USDC`, total]}
      />
    </div>
  );
}
