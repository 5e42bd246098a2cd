import { eq } from "drizzle-orm";
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

export async function readTerms(
  db: D1Database,
  requestId: string,
): Promise<RequestTerms | undefined> {
  const [terms] = await read(db, ({ select }) =>
    select({
      asset: requests.asset,
      amount: requests.amount,
      usdcAmount: requests.usdcAmount,
      side: requests.side,
    })
      .from(requests)
      .where(eq(requests.requestId, requestId)),
  );
  return terms;
}
