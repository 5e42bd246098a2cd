/** Asks for quotes on one outcome, shows them, and shows what was settled. */
import type { MarketAsset, Match, RequestSide } from "@rfq-custody/client";
import { useState } from "react";
import { useMyRequests } from "../portfolio/open-requests.tsx";
import { useAct } from "../session/use-service.ts";
import { useConnection } from "../live/live.tsx";
import { CheckField, Form, SelectField, TextField } from "../ui/form.tsx";
import { formatPrice, formatTokens, formatUnits, parseUnits, tokensFor, worth } from "../units.ts";
import { useBalances } from "../wallet/balances.tsx";
import { Quotes } from "./quotes.tsx";
import { Receipt } from "./receipt.tsx";

const SIDES = [
  { value: "Bid", text: "Buy" },
  { value: "Ask", text: "Sell" },
  { value: "TwoWay", text: "Both" },
] as const;
const QUICK = ["100", "500", "1000"];

type TicketProps = { asset: MarketAsset; outcome: string; lastPrice: number | null };

export function Ticket({ asset, outcome, lastPrice }: TicketProps) {
  const connection = useConnection();
  const [receipt, setReceipt] = useState<Match | null>(null);
  const requests = useMyRequests();
  const request = requests?.find(
    ({ venue_id, asset_id }) => venue_id === asset.venue_id && asset_id === asset.asset_id,
  );
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
        <TicketForm asset={asset} outcome={outcome} lastPrice={lastPrice} />
      ) : (
        <Quotes request={request} outcome={outcome} lastPrice={lastPrice} onMatch={setReceipt} />
      )}
    </>
  );
}

type TicketFormProps = { asset: MarketAsset; outcome: string; lastPrice: number | null };

function TicketForm({ asset, outcome, lastPrice }: TicketFormProps) {
  const act = useAct("my-requests");
  const [side, setSide] = useState<RequestSide>("Bid");
  const [unit, setUnit] = useState<"tokens" | "usdc">("tokens");
  const [size, setSize] = useState("");
  const { data: balances } = useBalances();
  const usable = balances?.find(({ venue_id, asset_id }) =>
    side === "Bid" ? venue_id === null : venue_id === asset.venue_id && asset_id === asset.asset_id,
  )?.balance;
  const largest = () => {
    setUnit(side === "Bid" ? "usdc" : "tokens");
    setSize(formatTokens(usable ?? 0n).replaceAll(",", ""));
  };
  return (
    <section className="card ticket" aria-label="Ask for quotes">
      <h2>{outcome}</h2>
      <Form
        label="Ask for quotes"
        action="Ask for quotes"
        submit={async (values) => {
          const amount = values.units("size");
          const terms = {
            ...asset,
            ...(unit === "usdc" ? { usdc_amount: amount } : { amount }),
            side,
            expires_in_secs: values.integer("minutes") * 60,
            disclose_identity: values.checked("disclose"),
          };
          await act((client) => client.rfq.request(terms));
        }}
      >
        <fieldset className="seg">
          <legend className="sr">Side</legend>
          {SIDES.map(({ value, text }) => (
            <label key={value}>
              <input
                type="radio"
                name="side"
                checked={side === value}
                onChange={() => setSide(value)}
              />
              <span>{text}</span>
            </label>
          ))}
        </fieldset>
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
            {...(usable === undefined || side === "TwoWay"
              ? {}
              : {
                  hint: `You can use ${formatTokens(usable)} ${side === "Bid" ? "USDC" : outcome}`,
                })}
          />
          <SelectField
            label="Size in"
            name="unit"
            value={unit}
            onChange={(value) => setUnit(value === "usdc" ? "usdc" : "tokens")}
            options={{ tokens: "tokens", usdc: "USDC" }}
          />
        </div>
        <p className="chips">
          {QUICK.map((text) => (
            <button key={text} type="button" className="chip" onClick={() => setSize(text)}>
              {text}
            </button>
          ))}
          {side === "TwoWay" || usable === undefined || usable === 0n ? null : (
            <button type="button" className="chip" onClick={largest}>
              Max
            </button>
          )}
        </p>
        <Estimate size={size} unit={unit} lastPrice={lastPrice} />
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
    </section>
  );
}

type EstimateProps = { size: string; unit: "tokens" | "usdc"; lastPrice: number | null };

/** What the size is worth at the last price. A quote decides. */
function Estimate({ size, unit, lastPrice }: EstimateProps) {
  const amount = parseUnits(size);
  if (amount === null || lastPrice === null) return null;
  const text =
    unit === "tokens"
      ? `${formatUnits(worth(amount, lastPrice))} USDC`
      : `${formatTokens(tokensFor(amount, lastPrice))} tokens`;
  return (
    <p className="muted" role="status">
      About {text} at the last price, {formatPrice(lastPrice)}. Makers answer with firm prices.
    </p>
  );
}
