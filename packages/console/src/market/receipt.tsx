import type { Match } from "@rfq-custody/client";
import { Facts } from "../ui/facts.tsx";
import { When } from "../ui/times.tsx";
import { formatPrice, formatTokens, formatUnits } from "../units.ts";

type ReceiptProps = { match: Match; outcome: string; close: () => void };

/** A settled match. */
export function Receipt({ match, outcome, close }: ReceiptProps) {
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
      <Facts
        facts={{
          Price: formatPrice(match.price),
          Fee: fee === 0n ? "" : `${formatUnits(fee)} USDC`,
          Settled: <When at={match.created_at} />,
        }}
        total={[
          `You ${buys ? "paid" : "got"}`,
          `${formatUnits(buys ? usdc_amount + fee : usdc_amount - fee)} USDC`,
        ]}
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
