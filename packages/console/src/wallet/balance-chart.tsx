import type { LedgerEntry } from "@rfq-custody/client";
import { useRead } from "../session/use-service.ts";
import { Chart } from "../ui/chart.tsx";
import { formatUnits } from "../units.ts";

/** The newest changes of the available USDC. */
const POINTS = 500;
const NONE: readonly LedgerEntry[] = [];
const pointOf = ({ created_at: at, balance_after }: LedgerEntry) => ({
  at,
  value: Number(balance_after) / 1e6,
});

export function BalanceChart() {
  const entries = useRead(["ledger", "chart"], async (client) => {
    const filter = { account: "available", usdc: true, limit: POINTS } as const;
    return (await client.custody.ledger(filter).page()).items.toReversed();
  });
  const last = entries?.at(-1);
  return (
    <figure>
      <figcaption>
        Available USDC{last === undefined ? "" : `, now ${formatUnits(last.balance_after)}`}
      </figcaption>
      <Chart rows={entries ?? NONE} point={pointOf} unit="USDC" height={180} />
    </figure>
  );
}
