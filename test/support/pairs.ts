/** Pairs of tests: two tokens of `venue_four`, which has no chain. */
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { all, sql } from "../../src/platform/sql.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { settings as settingsOf } from "./http.ts";
import { balances, newAsset, type TestAsset } from "./ledger.ts";
import { orderOf, orderOfTwo, sendOrder } from "./operator.ts";
import type { TestUser } from "./users.ts";

export type TestPair = { readonly yes: TestAsset; readonly no: TestAsset };

export const named = ({ venue_id, asset_id }: TestAsset) => ({
  venue: venue_id,
  "asset-id": asset_id,
});

/** Lists two markets, of which the second names the first as its complement. */
export async function newPair(): Promise<TestPair> {
  const [yes, no] = [newAsset("venue_four"), newAsset("venue_four")];
  const title = `Question ${yes.asset_id}`;
  const first = { ...named(yes), title, outcome: "Yes" };
  expect(await sendOrder(orderOf(["market", "set"], first))).toMatchObject({ ok: true });
  const second = { ...named(no), title, outcome: "No", complement: yes.asset_id };
  expect(await sendOrder(orderOf(["market", "set"], second))).toMatchObject({ ok: true });
  return { yes, no };
}

export const resolve = (asset: TestAsset, result: number, settings: object = {}) =>
  orderOfTwo(
    ["market", "resolve"],
    { ...named(asset), result: String(result) },
    { ...settings, password: "" },
  );

/** What the house account of a pair holds: USDC, and both tokens. */
export async function pairBalances({ yes, no }: TestPair): Promise<[number, number, number]> {
  const rows = await all<{ asset: string; balance: number }>(
    env.DB,
    sql`SELECT asset, balance FROM accounts
      WHERE owner = CAST('pair:' || min(${yes.key}, ${no.key}) AS BLOB)`,
  );
  const of = (key: string) => rows.find(({ asset }) => asset === key)?.balance ?? 0;
  return [of("usdc"), of(yes.key), of(no.key)];
}

/** What a user has available: USDC, and both tokens. */
export async function holding({ userId }: TestUser, { yes, no }: TestPair): Promise<bigint[]> {
  const of = async (key: string) => (await balances(userId, key))[0];
  return [await of("usdc"), await of(yes.key), await of(no.key)];
}

/** The open differences about a pair. */
export async function pairDifferences({ yes, no }: TestPair): Promise<string[]> {
  await reconcile(env.DB, { macKeys: settingsOf(), chains: [] });
  const open = await all<{ detail: string }>(
    env.DB,
    sql`SELECT detail FROM alerts WHERE kind = 'reconciliation' AND resolved_at IS NULL`,
  );
  const about = (detail: string) => [yes, no].some(({ asset_id: id }) => detail.includes(id));
  return open.flatMap(({ detail }) => (about(detail) ? [detail] : []));
}
