import type { RequestSide } from "../assets/asset-fields.ts";
import { all, readUuid, sql, uuids } from "../platform/sql.ts";
import type { OpenRequest } from "./command.ts";

/** What never changes about a request. A book keeps it. */
export type RequestTerms = {
  readonly asset: string;
  readonly amount: bigint | null;
  readonly usdcAmount: bigint | null;
  readonly side: RequestSide;
};

type Given = Pick<OpenRequest, "asset" | "amount" | "usdcAmount" | "side">;

export function termsOf({ asset, amount, usdcAmount, side }: Given): RequestTerms {
  return {
    asset,
    amount: amount === null ? null : BigInt(amount),
    usdcAmount: usdcAmount === null ? null : BigInt(usdcAmount),
    side,
  };
}

export async function readTerms(
  db: D1Database,
  requestIds: readonly string[],
): Promise<(RequestTerms & { requestId: string })[]> {
  const rows = await all<Given & { requestId: string }>(
    db,
    sql`SELECT hex(request_id) AS requestId, asset, amount, CAST(usdc_amount AS TEXT) AS usdcAmount,
        side
      FROM requests WHERE request_id IN (${uuids(requestIds)})`,
  );
  return rows.map((row) => ({ ...termsOf(row), requestId: readUuid(row.requestId) }));
}
