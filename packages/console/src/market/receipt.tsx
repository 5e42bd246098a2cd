/** What was settled, what it changed, and where to go from here. */
import type { Match, Position } from "@rfq-custody/client";
import { Facts } from "../ui/records.tsx";
import { Id, Price, Result, tokensOf, usdcOf, When } from "../ui/values.tsx";
import { formatTokens, formatUnits, toCent, worth } from "../units.ts";
import { useBalance } from "../wallet/balances.ts";
import { usePosition } from "./position.tsx";
import { totalOf } from "./shown-quote.ts";

type ReceiptProps = {
  match: Match;
  /** The last price when it was asked for. */
  before: number | null;
  outcome: string;
  close: () => void;
};

export function Receipt({ match, before, outcome, close }: ReceiptProps) {
  const buys = match.side === "Bid";
  const left = useBalance()?.balance;
  const position = usePosition(match);
  return (
    <section className="card ticket" aria-label="Settled">
      <div className="done-head">
        <span className="done-mark" aria-hidden="true">
          ✓
        </span>
        <div role="status">
          <h2 tabIndex={-1}>
            {buys ? "Bought" : "Sold"} {formatTokens(match.amount)} {outcome}
          </h2>
          <small className="sub">
            Settled <When at={match.created_at} />
          </small>
        </div>
      </div>
      <Facts
        facts={{
          Price: <Price price={match.price} />,
          Fee: match.fee === 0n ? "" : usdcOf(match.fee),
        }}
        total={[
          `You ${buys ? "paid" : "got"}`,
          <span key="total" title={formatUnits(totalOf(match))}>
            {formatUnits(toCent(totalOf(match)))} USDC
          </span>,
        ]}
      />
      <Better match={match} before={before} />
      <div className="receipt">
        {position ? <Holding position={position} outcome={outcome} /> : null}
        <Facts facts={{ "Left to trade with, USDC": usdcOf(left) }} />
      </div>
      <button type="button" className="primary big" onClick={close}>
        Trade again
      </button>
      <p className="row">
        <a href="#portfolio">See portfolio</a>
        <a href={`#wallet/${match.match_id}`}>Its ledger entries</a>
        <span className="muted">
          Trade <Id id={match.match_id} />
        </span>
      </p>
    </section>
  );
}

/** What the position is now. */
function Holding({ position, outcome }: { position: Position; outcome: string }) {
  const { amount, average_price } = position;
  return (
    <Facts
      facts={{
        "You now hold": `${formatTokens(toCent(amount))} ${outcome}`,
        "You paid, on average": average_price === null ? "" : <Price price={average_price} />,
        "If it happens, it pays, USDC": tokensOf(amount),
      }}
    />
  );
}

/** Nothing for a trade at the price before, or without one. */
function Better({ match, before }: Pick<ReceiptProps, "match" | "before">) {
  if (before === null || before === match.price) return null;
  const atLast = worth(match.amount, before);
  const saved = match.side === "Bid" ? atLast - match.usdc_amount : match.usdc_amount - atLast;
  return (
    <p className="between">
      <span className="muted">Against the price before</span>
      <Result result={saved} />
    </p>
  );
}
