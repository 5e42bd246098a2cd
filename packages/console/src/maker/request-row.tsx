/** One open request: what they want, the maker's price of it, and what that price promises. */
import type { Quote } from "@rfq-custody/client";
import { memo } from "react";
import { textOf } from "../names.ts";
import { marketHref } from "../router.ts";
import { Countdown, tokensOf } from "../ui/values.tsx";
import { formatCents, formatTokens, sizeOf, tenths, toCent } from "../units.ts";
import { atRisk, nextField, promiseOf, type Side } from "./quoting.ts";
import { type Offer, type OfferProps, useOffer } from "./use-offer.ts";

const THEY = {
  Bid: ["up", "▲", "buy", ["Bid"]],
  Ask: ["down", "▼", "sell", ["Ask"]],
  TwoWay: ["", "◆", "both", ["Ask", "Bid"]],
} as const;

type RowProps = OfferProps & {
  title: string;
  outcome: string;
  look: (request: OfferProps["request"]) => void;
};

export const RequestRow = memo(function RequestRow(props: RowProps) {
  const { request, over, title, outcome, last, fundsBid: held, terms, look } = props;
  const name = textOf({ title, outcome });
  const [colour, sign, word, sides] = THEY[request.side];
  const offers = { Bid: useOffer(props, "Bid"), Ask: useOffer(props, "Ask") };
  const [offer] = sides.map((side) => offers[side]);
  const [side] = sides;
  const price = offer?.price ?? null;
  const risk = price === null ? null : atRisk(request, side, price);
  return (
    <tr id={request.request_id} className={over ? "muted" : ""}>
      <td className="of-market">
        <a
          href={marketHref(request)}
          title={name}
          onClick={(event) => {
            if (event.ctrlKey || event.metaKey || event.shiftKey) return;
            event.preventDefault();
            look(request);
          }}
        >
          <b>{title}</b> <span className="muted">{outcome}</span>
        </a>
      </td>
      <td className={`of-they ${colour}`}>
        <span aria-hidden="true">{sign}</span> {word} <b>{sizeOf(request)}</b>
      </td>
      <td className="of-last" data-title="Last">
        {last === null ? "" : tenths(last)}
      </td>
      <td className="of-price">
        {sides.map((one) => (
          <PriceField
            key={one}
            side={one}
            isOne={sides.length === 1}
            name={name}
            {...offers[one]}
          />
        ))}
      </td>
      <td className="of-state">
        {sides.map((one) => (
          <State key={one} name={name} {...offers[one]} />
        ))}
      </td>
      <td className="of-promise" data-title="You promise">
        {over || price === null ? "" : promiseText(request, side, price, offer?.firm)}
      </td>
      <td className="of-hold" data-title="Hold">
        {tokensOf(held) || "0"}
        {risk === null || terms.most === 0n ? null : (
          <progress
            title={`At risk ${formatTokens(toCent(risk))} of ${formatTokens(terms.most)} USDC`}
            aria-label="At risk, of the limit"
            className={risk > terms.most ? "over" : ""}
            max={100}
            value={Number((risk * 100n) / terms.most)}
          />
        )}
      </td>
      <td className="of-left" data-title="Left">
        {over ? "over" : <Countdown until={request.expires_at} />}
      </td>
    </tr>
  );
});

function promiseText(...[request, side, price, firm]: PromiseArgs): string {
  const amount = firm?.reserve?.amount ?? promiseOf(request, side, price);
  return `${formatTokens(toCent(amount))} ${side === "Bid" ? "tokens" : "USDC"}`;
}

type PromiseArgs = [...Parameters<typeof promiseOf>, firm: Quote | undefined];

/** Arrows go to every field that is on, Enter past those with a firm quote. */
function focusFrom(field: HTMLInputElement, step: 1 | -1, passed?: string): void {
  const fields = [...(field.closest("table")?.querySelectorAll("input") ?? [])];
  const off = fields.map((one) => one.readOnly || one.className === passed);
  fields[nextField(off, fields.indexOf(field), step) ?? -1]?.focus();
}

type PriceFieldProps = Offer & { side: Side; isOne: boolean; name: string };

function PriceField(props: PriceFieldProps) {
  const { side, isOne, name, field, firm, busy, unchanged, label, placeIfAble, cancel, step } =
    props;
  const { text, setText, setKept, shown, off } = field;
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const input = event.currentTarget.querySelector("input");
        // After a press of the button a phone would open its keyboard for a field nobody touched.
        if (placeIfAble() && input !== null && input === document.activeElement)
          focusFrom(input, 1, "firm");
      }}
    >
      {isOne ? null : (
        <small className="muted" aria-hidden="true">
          {side === "Bid" ? "sell" : "buy"}
        </small>
      )}
      <input
        className={firm === undefined ? "" : "firm"}
        aria-label={`You ${side === "Bid" ? "sell" : "buy"} at, ${name}, cents`}
        inputMode="decimal"
        autoComplete="off"
        placeholder={shown === null ? "" : formatCents(shown)}
        value={text}
        readOnly={off}
        aria-disabled={off}
        onFocus={() => setKept(shown)}
        onBlur={() => setKept(null)}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          const row = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          const cents = { "+": 1, "-": -1 }[event.key];
          if (row === 1 || row === -1) {
            event.preventDefault();
            focusFrom(event.currentTarget, row);
          } else if (cents === 1 || cents === -1) {
            event.preventDefault();
            step(cents);
          } else if (event.key === "Escape" && !event.shiftKey)
            if (unchanged) cancel();
            else setText("");
        }}
      />
      <button type="submit" aria-label={`${label}, ${name}`} disabled={off || busy || unchanged}>
        {label}
      </button>
    </form>
  );
}

function State({ firm, busy, state, cancel, name }: Offer & { name: string }) {
  const [tone, text] = state;
  if (firm === undefined || busy || tone === "warn" || tone === "problem")
    return (
      <span className={tone} title={text} role={tone === "problem" ? "alert" : undefined}>
        {text}
      </span>
    );
  return (
    <span className="muted">
      firm, <Countdown until={firm.expires_at} />{" "}
      <button type="button" className="link" aria-label={`Cancel ${name}`} onClick={cancel}>
        ✕
      </button>
    </span>
  );
}
