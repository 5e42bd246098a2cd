/** Deposits below the asset's minimum: recorded, summed, credited together. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { listDeposits } from "../../src/custody/payment-records.ts";
import { forgetDeposit } from "../../src/custody/operator-commands.ts";
import { recordDeposits, transfersToUs } from "../../src/custody/watcher/detect-deposits.ts";
import { markDue } from "../../src/custody/watcher/small-deposits.ts";
import { commitOrThrow, newGroup } from "../../src/platform/commit.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import { all, first, prepare, sql, TRUE, uuid } from "../../src/platform/sql.ts";
import { openChain, TOKENS } from "../support/deposit-chain.ts";
import { apiOf } from "../support/http.ts";
import { balances, newAsset } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";

const db = env.DB;
const base = config(env);

it("GET /config shows the minimum of each chain and venue, by default 1", async () => {
  const [chain, venue] = [defaultChain(base), base.VENUES[0]];
  const shown = async (changes: Record<string, string>) => {
    const { json } = await apiOf(await newUser(), changes).get("/config");
    return [json["chains"][0].min_deposit, json["venues"][0].min_deposit];
  };
  expect(await shown({})).toEqual(["0x1", "0x1"]);
  const changes = {
    CHAINS: JSON.stringify([{ ...chain, min_deposit: 1_000_000 }]),
    VENUES: JSON.stringify([{ ...venue, min_deposit: 500 }]),
  };
  expect(await shown(changes)).toEqual(["0xf4240", "0x1f4"]);
});

it("records a deposit below the minimum once, without a balance", async () => {
  const { userId, address, transfer, receive, listed, events } = await openChain();
  const small = transfer(999n);
  await receive([small]);
  await receive([small]);
  expect(await listed()).toMatchObject([
    {
      address,
      venue_id: null,
      asset_id: null,
      amount: "0x3e7",
      transaction_hash: small.transactionHash,
      block_number: 88,
      confirmations: 8,
      status: "below_minimum",
      credited_at: null,
    },
  ]);
  expect(await balances(userId, USDC)).toEqual([0n, 0n]);
  expect(await events()).toEqual(["deposit.below_minimum"]);
});

it("credits small deposits, an entry each, once they reach the minimum together", async () => {
  const { userId, transfer, receive, listed, events } = await openChain();
  const { asset_id, key } = newAsset();
  const of = (amount: bigint) =>
    transfer(amount, { token: TOKENS, tokenId: BigInt(asset_id), blockNumber: 70 });
  await receive([of(300n), of(100n)]);
  const before = await listed("below_minimum");
  expect(before.map((deposit) => [deposit.venue_id, deposit.asset_id])).toEqual([
    ["venue_one", asset_id],
    ["venue_one", asset_id],
  ]);
  await receive([of(100n)]);
  expect(await balances(userId, key)).toEqual([500n, 0n]);
  const after = await listed("credited");
  expect(await listed("below_minimum")).toEqual([]);
  expect(after.slice(1).map(({ deposit_id, created_at }) => [deposit_id, created_at])).toEqual(
    before.map(({ deposit_id, created_at }) => [deposit_id, created_at]),
  );
  expect(await events()).toEqual([
    "deposit.below_minimum",
    "deposit.below_minimum",
    "deposit.credited",
    "deposit.credited",
    "deposit.credited",
  ]);
  const entries = await all<{ detected: number }>(
    db,
    sql`SELECT d.detected_group = d.ended_group AS detected
      FROM transfers t JOIN deposits d ON d.deposit_id = t.ref
      WHERE d.user_id = ${uuid(userId)} ORDER BY detected`,
  );
  // A rescan counts what its group has detected.
  expect(entries.map(({ detected }) => detected)).toEqual([0, 0, 1]);
});

it("credits small deposits together with a larger one", async () => {
  const { userId, transfer, receive, statuses } = await openChain();
  await receive([transfer(5n)]);
  await receive([transfer(5_000n)]);
  expect(await balances(userId, USDC)).toEqual([5_005n, 0n]);
  const later = transfer(6n);
  await receive([later]);
  expect(await statuses()).toEqual(["below_minimum", "credited", "credited"]);
});

it("an older larger deposit that is read again credits no small one", async () => {
  const { transfer, receive, statuses } = await openChain();
  const large = transfer(5_000n);
  await receive([large]);
  await receive([transfer(5n)]);
  await receive([large]);
  expect(await statuses()).toEqual(["below_minimum", "credited"]);
});

it("sums neither two addresses nor two assets", async () => {
  const { transfer, receive, statuses, newDepositAddress } = await openChain();
  const to = await newDepositAddress();
  const [one, two] = [newAsset(), newAsset()];
  await receive([
    transfer(600n),
    transfer(600n, { to }),
    transfer(300n, { token: TOKENS, tokenId: BigInt(one.asset_id) }),
    transfer(300n, { token: TOKENS, tokenId: BigInt(two.asset_id) }),
  ]);
  expect(new Set(await statuses())).toEqual(new Set(["below_minimum"]));
});

it("keeps a transfer where it was recorded first when the minimum changes", async () => {
  const { userId, transfer, receive, listed, statuses } = await openChain();
  const [large, small] = [transfer(1_000n), transfer(900n)];
  await receive([large]);
  await receive([small]);
  const ids = (await listed()).map(({ deposit_id }) => deposit_id);
  await receive([large, small], { usdc: 2_000, token: 1 });
  expect(await statuses()).toEqual(["below_minimum", "credited"]);
  await receive([large, small], { usdc: 1, token: 1 });
  // The sum of the row, which is read again, has reached the lower minimum.
  expect(await statuses()).toEqual(["credited", "credited"]);
  expect((await listed()).map(({ deposit_id }) => deposit_id)).toEqual(ids);
  expect(await balances(userId, USDC)).toEqual([1_900n, 0n]);
});

it("a deposit detected under a lower minimum is confirmed under the higher one", async () => {
  const { chain, userId, transfer, receive, contextUnder, statuses } = await openChain();
  const early = transfer(50n);
  const under = contextUnder({ usdc: 1, token: 1 });
  const seen = await transfersToUs(under, [early]);
  const group = newGroup();
  await commitOrThrow(
    db,
    group,
    recordDeposits(group, under.chain, seen, { confirmed: false, when: TRUE }),
  );
  await receive([early]);
  expect(await statuses()).toEqual(["credited"]);
  expect(await balances(userId, USDC)).toEqual([50n, 0n]);
  const rows = await first<{ n: number }>(
    db,
    sql`SELECT count(*) AS n FROM small_deposits WHERE chain = ${chain}`,
  );
  expect(rows?.n).toBe(0);
});

it("writes no row before the block is confirmed", async () => {
  const { contextUnder, transfer, statuses } = await openChain();
  const { chain, ...under } = contextUnder({ usdc: 1_000, token: 500 });
  const seen = await transfersToUs({ ...under, chain }, [transfer(5n)]);
  const group = newGroup();
  await commitOrThrow(
    db,
    group,
    recordDeposits(group, chain, seen, { confirmed: false, when: TRUE }),
  );
  expect(await statuses()).toEqual([]);
});

it("a lower minimum credits rows of addresses that receive nothing further", async () => {
  const { userId, transfer, receive, recheck, statuses } = await openChain();
  const { asset_id, key } = newAsset();
  await receive([
    ...Array.from({ length: 600 }, () => transfer(1n)),
    transfer(400n, { token: TOKENS, tokenId: BigInt(asset_id) }),
  ]);
  expect(await recheck({ usdc: 601, token: 500 })).toBe(2);
  expect(new Set(await statuses())).toEqual(new Set(["below_minimum"]));
  expect(await recheck({ usdc: 601, token: 400 })).toBe(2);
  expect(await balances(userId, key)).toEqual([400n, 0n]);
  expect(await balances(userId, USDC)).toEqual([0n, 0n]);
  await recheck({ usdc: 600, token: 400 });
  expect(await balances(userId, USDC)).toEqual([600n, 0n]);
  expect(new Set(await statuses())).toEqual(new Set(["credited"]));
});

it("counts the largest deposits, however many tiny ones there are", async () => {
  const { chain, userId, transfer, receive } = await openChain();
  const tiny = () => Array.from({ length: 600 }, () => transfer(1n));
  await receive(tiny(), { usdc: 10_000, token: 1 });
  await receive(tiny(), { usdc: 10_000, token: 1 });
  await receive([transfer(4_600n)], { usdc: 10_000, token: 1 });
  expect(await balances(userId, USDC)).toEqual([0n, 0n]);
  const pair = await first<{ pair: string }>(
    db,
    sql`SELECT hex(substr(key, 1, 8)) AS pair FROM small_deposits WHERE chain = ${chain}`,
  );
  const mark = markDue(
    sql`SELECT ${pair?.pair ?? ""} AS pair, 9999 AS floor, 0 AS with_larger`,
    TRUE,
  );
  expect((await prepare(db, mark).run()).meta.rows_read).toBeLessThan(1_100);
  await receive([transfer(4_600n)], { usdc: 10_000, token: 1 });
  expect(await balances(userId, USDC)).toEqual([4_600n * 2n + 998n, 0n]);
});

it("pages through both kinds of deposits in one order", async () => {
  const { userId, transfer, receive, statuses } = await openChain();
  const elsewhere = newAsset();
  for (let round = 0; round < 3; round++) {
    await receive([transfer(2_000n)]);
    await receive([
      transfer(1n, { token: TOKENS, tokenId: BigInt(elsewhere.asset_id) }),
      transfer(2n, { token: TOKENS, tokenId: BigInt(elsewhere.asset_id) }),
    ]);
  }
  const seen = [];
  let cursor: { at: number; id: string } | undefined;
  do {
    const page = await listDeposits(db, userId, {
      limit: 2,
      ...(cursor && { last_cursor: { text: "", position: cursor } }),
    });
    seen.push(...page.items);
    const last = page.items.at(-1);
    cursor =
      page.next_cursor === null || last === undefined
        ? undefined
        : { at: Date.parse(last.created_at), id: last.deposit_id };
  } while (cursor !== undefined);
  expect(new Set(seen.map((deposit) => deposit.deposit_id)).size).toBe(9);
  expect(seen.map((deposit) => deposit.status)).toEqual(await statuses());
  expect(await statuses()).toEqual(
    [1, 2, 3].flatMap(() => ["below_minimum", "below_minimum", "credited"]),
  );
});

it("forget-deposit orphans a small deposit until it is read again", async () => {
  const { userId, transfer, receive, listed, statuses, events } = await openChain();
  const small = transfer(10n);
  await receive([small]);
  const [deposit] = await listed();
  expect(await forgetDeposit(db, deposit?.deposit_id ?? "", "operator:test")).toBe(true);
  expect(await forgetDeposit(db, deposit?.deposit_id ?? "", "operator:test")).toBe(false);
  expect(await statuses()).toEqual(["orphaned"]);
  expect(await events()).toEqual(["deposit.below_minimum", "deposit.orphaned"]);
  await receive([small]);
  expect(await balances(userId, USDC)).toEqual([10n, 0n]);
});

it("credits once what a deep reorg mined again with another amount", async () => {
  const { userId, transfer, receive, statuses } = await openChain();
  const small = transfer(10n);
  // More than one group moves, so that the second row is due after the first was credited.
  await receive([small, ...Array.from({ length: 500 }, () => transfer(1n))]);
  await receive([{ ...small, amount: 300n }]);
  expect(await statuses()).toHaveLength(502);
  await receive([transfer(2_000n)]);
  expect(await statuses()).toEqual(Array.from({ length: 502 }, () => "credited"));
  expect(await balances(userId, USDC)).toEqual([2_510n, 0n]);
});

it("credits what another address had received in the same place before a reorg", async () => {
  const { chain, contextUnder, newDepositAddress, transfer, receive, userId } = await openChain();
  const under = contextUnder({ usdc: 1_000, token: 500 });
  const before = transfer(5_000n, { to: await newDepositAddress() });
  const group = newGroup();
  const seen = await transfersToUs(under, [before]);
  await commitOrThrow(db, group, [
    ...recordDeposits(group, under.chain, seen, { confirmed: false, when: TRUE }),
    sql`UPDATE deposits SET status = 'orphaned' WHERE chain = ${chain}`,
  ]);
  await receive([transfer(10n, { transactionHash: before.transactionHash })]);
  await receive([transfer(2_000n)]);
  expect(await balances(userId, USDC)).toEqual([2_010n, 0n]);
});

it("the database keeps a small deposit unchanged until it is in deposits", async () => {
  const { chain, transfer, receive } = await openChain();
  await receive([transfer(10n)]);
  for (const statement of [
    sql`UPDATE small_deposits SET amount = 11 WHERE chain = ${chain}`,
    sql`DELETE FROM small_deposits WHERE chain = ${chain}`,
  ])
    await expect(all(db, statement)).rejects.toThrow("append-only: small deposit");
});
