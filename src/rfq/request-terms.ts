import { eq } from "drizzle-orm";
import { read } from "../platform/read.ts";
import type { OpenRequest } from "./command.ts";
import { requests } from "./tables.ts";

/** What never changes about a request. A book keeps it. */
export type RequestTerms = Pick<typeof requests.$inferSelect, "asset" | "amount" | "side">;

export function termsOf({ asset, amount, side }: OpenRequest): RequestTerms {
  return { asset, amount: BigInt(amount), side };
}

export async function readTerms(
  db: D1Database,
  requestId: string,
): Promise<RequestTerms | undefined> {
  const [terms] = await read(db, ({ select }) =>
    select({ asset: requests.asset, amount: requests.amount, side: requests.side })
      .from(requests)
      .where(eq(requests.requestId, requestId)),
  );
  return terms;
}
