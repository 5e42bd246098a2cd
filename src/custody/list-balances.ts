import * as z from "zod";
import { toHex } from "../assets/amount.ts";
import { assetViewOrUsdc } from "./payment-records.ts";
import type * as schema from "./schemas.ts";
import { type Balance, readBalances } from "../ledger/balance.ts";
import { fetchCount, type Page, pageFields, pageOf, type PageQuery } from "../http/cursor.ts";

/** Balances are sorted by asset key, so the last key is the position. */
export const balancePage = pageFields(z.tuple([z.string().max(100)]).transform(([asset]) => asset));

export type AssetBalanceView = z.input<typeof schema.AssetBalance>;

/** Every asset with an available or pending balance: USDC first, then by venue and asset. */
export async function listBalances(
  db: D1Database,
  userId: string,
  page: PageQuery<string>,
): Promise<Page<AssetBalanceView>> {
  const rows = await readBalances(db, userId, {
    after: page.last_cursor?.position ?? "",
    limit: fetchCount(page),
  });
  return pageOf(
    page,
    rows,
    (row) => balanceView(row.asset, row),
    (row) => [row.asset],
  );
}

export function balanceView(asset: string, balance: Balance): AssetBalanceView {
  return { ...assetViewOrUsdc(asset), ...amounts(balance) };
}

export function amounts({ available, pending, promised }: Balance) {
  return {
    balance: toHex(available),
    pending_balance: toHex(pending),
    promised: toHex(promised),
  };
}
