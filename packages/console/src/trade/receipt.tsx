import type { Match } from "@rfq-custody/client";
import { useAssetName } from "../markets.ts";
import { formatPrice, formatTime, formatUnits } from "../units.ts";

/** A settled match. */
export function Receipt({ match, close }: { match: Match; close: () => void }) {
  const nameOf = useAssetName();
  const buys = (match.side === "Bid") === (match.role === "requester");
  return (
    <div className="card receipt" role="status">
      <h3>
        {buys ? "Bought" : "Sold"} {formatUnits(match.amount)} {nameOf(match)}
      </h3>
      <dl>
        <dt>Price</dt>
        <dd>{formatPrice(match.price)}</dd>
        <dt>USDC</dt>
        <dd>{formatUnits(match.usdc_amount)}</dd>
        <dt>Fee</dt>
        <dd>{formatUnits(match.fee)}</dd>
        <dt>Settled</dt>
        <dd>{formatTime(match.created_at)}</dd>
        <dt>Match</dt>
        <dd>
          <code>{match.match_id}</code>
        </dd>
      </dl>
      <button type="button" onClick={close}>
        Close
      </button>
    </div>
  );
}
