/** Limits of credits and withdrawals that depend on what the chain has issued or can pay. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { beyondShare } from "../../src/custody/payer/limit-queue.ts";
import { tokenName } from "../../src/chain/token.ts";
import { creditConfirmed } from "../../src/custody/watcher/credit-deposit.ts";
import { commit, newGroup, NOW } from "../../src/platform/commit.ts";
import { config } from "../../src/platform/config.ts";
import { all, first, raw, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { rowsReadBy } from "../support/counting-database.ts";
import {
  balances,
  edit,
  fund,
  insertDeposit,
  insertWithdrawal,
  newAsset,
  queueWithdrawal,
} from "../support/ledger.ts";
import { newUser } from "../support/users.ts";

const db = env.DB;

describe("confirmed deposits of worthless tokens", () => {
  const LIMIT = 2n ** 62n;
  const statusOf = async (depositId: string) =>
    (
      await first<{ status: string }>(
        db,
        sql`SELECT status FROM deposits WHERE deposit_id = ${uuid(depositId)}`,
      )
    )?.status;
  const credit = async () => {
    const group = newGroup();
    return commit(db, group, creditConfirmed(group, config(env), "local", raw("1")));
  };
  const confirmed = async (userId: string, asset: string, amount: bigint) => {
    const deposit = await insertDeposit(userId, {
      chain: "local",
      asset,
      amount,
      status: "confirming",
    });
    await all(
      db,
      sql`UPDATE deposits SET confirmed_group = 1
        WHERE deposit_id = ${uuid(deposit.depositId)}`,
    );
    return deposit.depositId;
  };

  it("that exceed the ledger together are credited up to it, and the rest quarantined", async () => {
    const { key } = newAsset();
    const { userId } = await newUser();
    const amount = (LIMIT * 3n) / 4n;
    const ids = [await confirmed(userId, key, amount), await confirmed(userId, key, amount)];
    // Another user's ordinary deposit of the same group must not wait for them.
    const { key: ordinary } = newAsset();
    const other = await confirmed(userId, ordinary, 5n);

    expect((await credit()).committed).toBe(true);
    expect(await statusOf(other)).toBe("credited");
    expect((await credit()).committed).toBe(true);

    const statuses = await Promise.all(ids.map(statusOf));
    expect(new Set(statuses)).toEqual(new Set(["credited", "quarantined"]));
    expect(await balances(userId, key)).toEqual([amount, 0n]);
  });

  it("above what a balance can hold are quarantined at once", async () => {
    const { key } = newAsset();
    const { userId } = await newUser();
    const ids = [
      await confirmed(userId, key, LIMIT + 1n),
      await confirmed(userId, key, 2n ** 63n),
      await confirmed(userId, key, 2n ** 200n),
    ];
    expect((await credit()).committed).toBe(true);
    for (const id of ids) expect(await statusOf(id)).toBe("quarantined");
    expect(await balances(userId, key)).toEqual([0n, 0n]);
  });
});

describe("a withdrawal", () => {
  it("is rejected while the chain's payer is halted", async () => {
    const { key } = newAsset();
    const user = await newUser();
    const chain = `halted-${user.userId}`;
    await fund(user.userId, key, 100n, { chain });
    await all(
      db,
      sql`INSERT INTO payer_leases (chain, token, taken_at, halted_at, halt_reason)
        VALUES (${chain}, ${uuid(user.userId)}, 1, 1, 'test')`,
    );
    await expect(queueWithdrawal(user, key, 1n, { chain })).rejects.toMatchObject({
      data: { code: "withdrawals_paused" },
    });
    expect(await balances(user.userId, key)).toEqual([100n, 0n]);
  });

  it.each(["queued", "submitted"])("cannot use what a %s one will take", async (status) => {
    const { key } = newAsset();
    const [one, two] = [await newUser(), await newUser()];
    const chain = `liquidity-${one.userId}`;
    await fund(one.userId, key, 100n, { chain });
    // On another chain, so that this one has issued 100 only.
    await fund(two.userId, key, 100n);
    const { withdrawalId } = await queueWithdrawal(one, key, 60n, { chain });
    await all(
      db,
      sql`UPDATE withdrawals SET status = ${status}, updated_at = ${NOW}
        WHERE withdrawal_id = ${uuid(withdrawalId)}`,
    );
    await expect(queueWithdrawal(two, key, 41n, { chain })).rejects.toMatchObject({
      data: { code: "chain_liquidity", extensions: { available: "0x28" } },
    });
    await queueWithdrawal(two, key, 40n, { chain });
  });

  it("can use what one that has ended would have taken", async () => {
    const { key } = newAsset();
    const user = await newUser();
    const chain = `ended-${user.userId}`;
    await fund(user.userId, key, 100n, { chain });
    await insertWithdrawal(user.userId, { chain, asset: key, amount: 60n, status: "failed" });
    await queueWithdrawal(user, key, 100n, { chain });
  });
});

it("adds up once what an owner has had, however many withdrawals they queue", async () => {
  const [busy, other] = [await newUser(), await newUser()];
  const { key: asset } = newAsset();
  const chain = { chain: `share-${uuidv7()}` };
  const values = { ...chain, asset, amount: 10n };
  const insert = (user: typeof busy, status: string) =>
    insertWithdrawal(user.userId, { ...values, status });
  for (let n = 0; n < 200; n++)
    await Promise.all([insert(busy, "queued"), insert(busy, "settled")]);
  await insert(other, "queued");
  await edit(db, "withdrawals", [
    sql`UPDATE withdrawals SET created_at = ${NOW}, updated_at = ${NOW}
      WHERE chain = ${chain.chain}`,
  ]);
  for (const name of [asset, tokenName(asset)]) {
    const beyond = async (counted: D1Database, maximum: bigint) => {
      const limits = new Map([[name, { maximum, available: 0n }]]);
      return (await beyondShare({ db: counted, chain }, limits, [name])).length;
    };
    expect(await beyond(db, 2_009n)).toBe(200);
    expect(await beyond(db, 2_010n)).toBe(0);
    expect(await rowsReadBy((counted) => beyond(counted, 5n))).toBeLessThan(4_000);
  }
});
