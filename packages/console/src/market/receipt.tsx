import type { Match } from "@rfq-custody/client";
import { When } from "../ui/when.tsx";
import { formatPrice, formatTokens, formatUnits } from "../units.ts";

/** A settled match. */
export function Receipt({
  match,
  outcome,
  close,
}: {
  match: Match;
  outcome: string;
  close: () => void;
}) {
  const buys = (match.side === "Bid") === (match.role === "requester");
  const { fee, usdc_amount } = match;
  return (
    <section className="card ticket receipt" aria-label="Settled">
      <div role="status">
        <h2>
          <span aria-hidden="true">✓</span> {buys ? "Bought" : "Sold"} {formatTokens(match.amount)}{" "}
          {outcome}
        </h2>
      </div>
      <dl>
        <dt>Price</dt>
        <dd>{formatPrice(match.price)}</dd>
        {fee === 0n ? null : (
          <>
            <dt>Fee</dt>
            <dd>{formatUnits(fee)} USDC</dd>
          </>
        )}
        <dt className="total">You {buys ? "paid" : "got"}</dt>
        <dd className="total">{formatUnits(buys ? usdc_amount + fee : usdc_amount - fee)} USDC</dd>
        <dt>Settled</dt>
        <dd>
          <When at={match.created_at} />
        </dd>
      </dl>
      <p>
        <a href={`#wallet/${match.match_id}`}>Its ledger entries</a>
      </p>
      <button type="button" className="primary big" onClick={close}>
        Trade again
      </button>
    </section>
  );
}
