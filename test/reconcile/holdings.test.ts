/** The check `holdings_short` of the reconciliation. */
import { env } from "cloudflare:workers";
import { afterAll, expect, it } from "vitest";
import type { HoldingsAt } from "../../src/reconcile/check-holdings.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { all, blob, first, sql, uuid } from "../../src/platform/sql.ts";
import { fund, insertWithdrawal, newAsset, randomHex, tamper } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";
import { settings } from "../support/http.ts";

const db = env.DB;

/** Closes the alerts that these tests raise, so that tests of other files see none of them. */
afterAll(() =>
  all(
    db,
    sql`UPDATE alerts SET resolved_at = 1 WHERE kind = 'reconciliation' AND resolved_at IS NULL`,
  ),
);

/** A new chain at a confirmed block, with 100 of an asset issued. */
async function chainAt(block: number) {
  const chain = `c${randomHex(6)}`;
  const { key } = newAsset();
  const { userId } = await newUser();
  await fund(userId, key, 100n, { chain });
  await all(
    db,
    sql`INSERT INTO chain_cursors (chain, confirmed_number, confirmed_hash, scanned_number,
        scanned_hash, head_number, moved_group, moved_at)
      VALUES (${chain}, ${block}, ${blob(randomHex(32))}, ${block}, ${blob(randomHex(32))},
        ${block}, 1, 1)`,
  );
  const at = (next: number) =>
    all(db, sql`UPDATE chain_cursors SET confirmed_number = ${next} WHERE chain = ${chain}`);
  const check = async (held: bigint | undefined) => {
    const queries: Parameters<HoldingsAt>[0][] = [];
    const holdingsAt: HoldingsAt = async (query) => {
      queries.push(query);
      return new Map(held === undefined ? [] : query.assets.map((asset) => [asset, held]));
    };
    const result = await reconcile(db, { macKeys: settings(), chains: [chain], holdingsAt });
    return {
      block: result.block[chain],
      queries,
      own: result.differences.filter((one) => one.account.includes(key)),
      surplus: result.surplus.filter((one) => one.account.includes(key)),
    };
  };
  return { chain, userId, key, at, check };
}

const paused = async () =>
  (await first(db, sql`SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused'`)) !==
  undefined;

it("compares holdings at the confirmed block, by its hash", async () => {
  const { check, key } = await chainAt(40);
  const { block, own, queries } = await check(100n);
  expect([block, own, queries[0]?.block, queries[0]?.assets]).toEqual([40, [], 40, [key]]);
  expect(queries[0]?.blockHash).toMatch(/^0x[0-9a-f]{64}$/);
  expect((await check(5_000n)).own).toEqual([]);
});

it("reports what the chain holds above what is issued, without a difference", async () => {
  const exact = await chainAt(40);
  expect(await exact.check(100n)).toMatchObject({ own: [], surplus: [] });
  const { check, chain, key } = await chainAt(40);
  expect(await check(107n)).toMatchObject({
    own: [],
    surplus: [{ account: `external:${chain}/external/${key}`, amount: "7" }],
  });
});

it("pauses withdrawals when a second block shows a shortfall", async () => {
  const { chain, key, at, check } = await chainAt(40);
  expect((await check(99n)).own).toMatchObject([
    { check: "holdings_short", account: `external:${chain}/external/${key}`, amount: "-1" },
  ]);
  await check(99n);
  expect(await paused()).toBe(false);
  await at(41);
  await check(98n);
  expect(await paused()).toBe(true);
  await all(db, sql`DELETE FROM kill_switches WHERE name = 'withdrawals_paused'`);
  await at(42);
  expect((await check(100n)).own).toEqual([]);
  await at(43);
  await check(99n);
  expect(await paused()).toBe(false);
  await check(100n);
});

it("is neither ok nor complete if a chain cannot be read", async () => {
  const { chain } = await chainAt(40);
  const result = await reconcile(db, {
    macKeys: settings(),
    chains: [chain, "unknown"],
    holdingsAt: () => Promise.reject(new Error("node is down")),
  });
  expect([result.block[chain], result.block["unknown"]]).toEqual([null, null]);
  expect(result).toMatchObject({ ok: false, complete: false });
});

it("reads a chain again if its confirmed block moved", async () => {
  const { chain, at } = await chainAt(40);
  let block = 40;
  const movesOn = (times: number): HoldingsAt => {
    const last = block + times;
    return async (query) => {
      if (query.block === last) return new Map(query.assets.map((asset) => [asset, 100n]));
      await at(++block);
      throw new Error("the confirmed block has moved on");
    };
  };
  expect(
    (await reconcile(db, { macKeys: settings(), chains: [chain], holdingsAt: movesOn(2) })).block[
      chain
    ],
  ).toBe(42);
  expect(
    (await reconcile(db, { macKeys: settings(), chains: [chain], holdingsAt: movesOn(9) })).block[
      chain
    ],
  ).toBeNull();
});

it("counts a payment that the journal has not settled yet", async () => {
  const { chain, userId, key, check } = await chainAt(40);
  const { withdrawalId: id, paymentId } = await insertWithdrawal(userId, {
    chain,
    asset: key,
    amount: 30n,
    status: "submitted",
  });
  expect((await check(70n)).own.filter((one) => one.check === "holdings_short")).toHaveLength(1);
  await all(
    db,
    sql`INSERT INTO vault_events (chain, transaction_hash, ordinal, kind, payment_id, vault,
        asset, block_number, block_hash, recorded_group)
      VALUES (${chain}, ${blob(randomHex(32))}, 0, 'Paid', ${blob(paymentId)},
        ${blob(randomHex(20))}, ${key}, 40, ${blob(randomHex(32))}, 0)`,
  );
  expect((await check(70n)).own.filter((one) => one.check === "holdings_short")).toEqual([]);
  await tamper(
    "withdrawals_delete",
    sql`DELETE FROM withdrawals WHERE withdrawal_id = ${uuid(id)}`,
  );
});
