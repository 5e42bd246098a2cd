import { inArray } from "drizzle-orm";
import { read } from "../platform/read.ts";
import type { OpenRequest } from "./command.ts";
import { requests } from "./tables.ts";

/** What never changes about a request. A book keeps it. */
export type RequestTerms = Pick<
  typeof requests.$inferSelect,
  "asset" | "amount" | "usdcAmount" | "side"
>;

export function termsOf({ asset, amount, usdcAmount, side }: OpenRequest): RequestTerms {
  return {
    asset,
    amount: amount === null ? null : BigInt(amount),
    usdcAmount: usdcAmount === null ? null : BigInt(usdcAmount),
    side,
  };
}

/** At most as many ids as D1 binds parameters. */
export function readTerms(
  db: D1Database,
  requestIds: readonly string[],
): Promise<(RequestTerms & { requestId: string })[]> {
  return read(db, ({ select }) =>
    select({
      requestId: requests.requestId,
      asset: requests.asset,
      amount: requests.amount,
      usdcAmount: requests.usdcAmount,
      side: requests.side,
    })
      .from(requests)
      .where(inArray(requests.requestId, [...requestIds])),
  );
}
