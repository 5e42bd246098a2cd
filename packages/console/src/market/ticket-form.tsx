/** The form of a request: which side, how much, and at which price it is taken at once. */
import type { RequestSide } from "@rfq-custody/client";
import { useEffect, useRef } from "react";
import { useAct } from "../session/session.tsx";
import { Choice, SelectField } from "../ui/choices.tsx";
import { CheckField, Form, type FormValues, TextField } from "../ui/form.tsx";
import { Facts } from "../ui/records.tsx";
import { usdcOf } from "../ui/values.tsx";
import {
  exactUnits,
  formatTokens,
  formatUnits,
  parseUnits,
  roughPrice,
  toCent,
  tokensFor,
  worth,
} from "../units.ts";
import { useBalance } from "../wallet/balances.ts";
import type { TicketProps } from "./ticket.tsx";

const SIDES = { Bid: "Buy", Ask: "Sell", TwoWay: "Both" } as const;
const UNITS = { tokens: "tokens", usdc: "USDC" } as const;
type Unit = keyof typeof UNITS;
const QUICK = ["100", "500", "1,000"];
const LONGEST_MINUTES = 1_440;

/** What is written stays while a request is open, for the next one. */
export type Draft = { side: RequestSide; unit: Unit; size: string; limit: string };
export const EMPTY_DRAFT: Draft = { side: "Bid", unit: "tokens", size: "", limit: "" };

type TicketFormProps = Omit<TicketProps, "sells"> & {
  draft: Draft;
  change: (draft: Draft) => void;
  asked: () => void;
};

export function TicketForm({ draft, change, asked, ...ticket }: TicketFormProps) {
  const { asset, outcome } = ticket;
  const { side, unit, size, limit } = draft;
  const act = useAct("my-requests");
  const usable = useBalance(side === "Bid" ? undefined : asset)?.balance ?? 0n;
  const largest = () =>
    change({ ...draft, unit: side === "Bid" ? "usdc" : "tokens", size: exactUnits(usable) });
  // For "Sell" of a position: all of it, once it is known.
  const fresh = useRef(side === "Ask" && size === "");
  useEffect(() => {
    if (!fresh.current || usable === 0n) return;
    fresh.current = false;
    change({ ...draft, size: exactUnits(usable) });
  });
  return (
    <section className="card ticket" aria-label="Ask for quotes">
      <h2 tabIndex={-1}>Ask for quotes on {outcome}</h2>
      <Form
        label="Ask for quotes"
        action="Ask for quotes"
        names={{
          amount: "size",
          usdc_amount: "size",
          expires_in_secs: "minutes",
          accept_price: "limit",
        }}
        submit={async (values) => {
          await act((client) => client.rfq.request({ ...asset, side, ...termsOf(values, unit) }));
          asked();
        }}
      >
        <Choice
          label="Side"
          options={SIDES}
          value={side}
          onChange={(next) => change({ ...draft, side: next })}
        />
        <div className="row">
          <TextField
            label="Size"
            name="size"
            inputMode="decimal"
            placeholder="100"
            autoComplete="off"
            required
            value={size}
            onChange={({ target }) => change({ ...draft, size: target.value })}
            hint={
              side === "TwoWay"
                ? "Makers name a price to buy from you and one to sell to you."
                : `You can use ${formatTokens(toCent(usable)) || "0"} ${side === "Bid" ? "USDC" : outcome}`
            }
          />
          <SelectField
            label="Size in"
            value={unit}
            onChange={(next) => change({ ...draft, unit: next })}
            options={UNITS}
          />
        </div>
        <p className="chips">
          {QUICK.map((text) => (
            <button
              key={text}
              type="button"
              className="chip"
              onClick={() => change({ ...draft, size: text })}
            >
              {text}
            </button>
          ))}
          {side === "TwoWay" || usable === 0n ? null : (
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
            value={limit}
            onChange={({ target }) => change({ ...draft, limit: target.value })}
            hint="Optional. The first quote that is as good is taken at once. Fees come on top."
          />
        )}
        <Estimate {...draft} {...ticket} usable={usable} />
        <details>
          <summary>More</summary>
          <TextField
            label="Open for minutes"
            name="minutes"
            inputMode="numeric"
            defaultValue="5"
            required
          />
          <CheckField label="Show makers my user id, to those who price by it" name="disclose" />
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
    expires_in_secs: values.integer("minutes", LONGEST_MINUTES) * 60,
    disclose_identity: values.has("disclose"),
    accept_price: values.price("limit") ?? null,
  };
}

type EstimateProps = Draft & Omit<TicketProps, "asset" | "sells"> & { usable: bigint };

/** What the size costs or brings at the last price, and whether there is enough. A quote decides. */
function Estimate({ size, unit, side, outcome, lastPrice, feeBps, usable }: EstimateProps) {
  const amount = parseUnits(size);
  if (amount === null || lastPrice === null)
    return side === "Bid" && usable === 0n ? <TooLittle unit="USDC" usable={0n} /> : null;
  const tokens = unit === "tokens" ? amount : tokensFor(amount, lastPrice);
  const usdc = unit === "usdc" ? amount : worth(amount, lastPrice);
  const fee = (usdc * feeBps + 9_999n) / 10_000n;
  const buys = side === "Bid";
  const total = buys ? usdc + fee : usdc - fee;
  const needed = buys ? usdc : tokens;
  return (
    <div role="status">
      <Facts
        facts={{
          [`${formatTokens(toCent(tokens))} at the last price, ${roughPrice(lastPrice)}`]:
            usdcOf(usdc),
          Fee: fee === 0n || side === "TwoWay" ? "" : usdcOf(fee),
          [`If ${outcome}, you get`]: buys ? usdcOf(tokens) : "",
        }}
        total={
          side === "TwoWay" ? undefined : [`You ${buys ? "pay" : "get"} about, USDC`, usdcOf(total)]
        }
      />
      {side !== "TwoWay" && needed > usable ? (
        <TooLittle unit={buys ? "USDC" : outcome} usable={usable} />
      ) : null}
    </div>
  );
}

function TooLittle({ unit, usable }: { unit: string; usable: bigint }) {
  return (
    <p className="warn">
      You have {formatUnits(toCent(usable))} {unit}, which is not enough.{" "}
      <a href="#wallet">Deposit</a>
    </p>
  );
}
