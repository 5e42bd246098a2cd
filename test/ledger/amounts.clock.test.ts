/**
 * In the clock project for a database of its own, because its transfers have no records and a
 * reconciliation in the other tests would report each of them.
 */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { reasonCode, stepCode } from "../../src/ledger/codes.ts";
import type { LedgerFilter } from "../../src/ledger/filter.ts";
import { NEWEST, readEntries } from "../../src/ledger/history.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { newAsset } from "../support/ledger.ts";
import { withBatch } from "../support/slow-database.ts";
import { newUser } from "../support/users.ts";
import { modelEntries, plain, plainModel, readAll } from "../support/ledger-model.ts";

const db = env.DB;

/** A user whose reserves have these amounts, oldest first. */
async function reserver(amounts: readonly number[]): Promise<string> {
  const { key } = newAsset();
  const { userId } = await newUser({
    [key]: BigInt(amounts.reduce((sum, amount) => sum + amount, 1)),
  });
  const id = await first<{ a: number; p: number }>(
    db,
    sql`SELECT max(iif(kind = 'available', account_id, 0)) AS a,
        max(iif(kind = 'pending', account_id, 0)) AS p
      FROM accounts WHERE owner = ${uuid(userId)}`,
  );
  for (let start = 0; start < amounts.length; start += 5_000) {
    const chunk = JSON.stringify(amounts.slice(start, start + 5_000));
    await all(
      db,
      sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
      SELECT ${id?.a ?? 0}, ${id?.p ?? 0}, value, ${reasonCode("reserve_rfq")}, randomblob(16),
        ${stepCode("reserve")}, 0, (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1)
      FROM json_each(${chunk})`,
    );
  }
  return userId;
}

describe("a page with a filter on amounts", () => {
  it("agrees with the model, page by page", async () => {
    const userId = await reserver(
      Array.from({ length: 3_000 }, (_, i) => (i % 250 === 0 ? 777 + (i % 3) : 5)),
    );
    const mine = await modelEntries(db, userId);
    const oldest = mine.at(-1)?.at ?? 0;
    for (const filter of [
      { minAmount: 6n },
      { minAmount: 777n, maxAmount: 777n },
      { minAmount: 6n, from: oldest },
      { minAmount: 6n, to: oldest },
      { minAmount: 6n, direction: "credit" },
      { minAmount: 6n, account: "pending", reasons: ["reserve_rfq"] },
      { minAmount: 2n ** 50n },
      { maxAmount: 4n },
    ] as LedgerFilter[]) {
      for (const limit of [7, 2_000]) {
        expect([filter, plain(await readAll(db, userId, filter, limit))]).toEqual([
          filter,
          plainModel(mine, filter),
        ]);
      }
    }
  });

  it("examines 1 000 entries in one batch, and may be short", async () => {
    const userId = await reserver([
      ...Array.from({ length: 12 }, () => 777),
      ...Array.from({ length: 600 }, () => 5),
    ]);
    const mine = await modelEntries(db, userId);
    let batches = 0;
    const counting = withBatch(db, (statements) => {
      batches++;
      return db.batch(statements);
    });
    const filter = { minAmount: 6n };
    const short = await readEntries(counting, userId, filter, { before: NEWEST, limit: 7 });
    expect([short.rows, short.next, batches]).toEqual([[], BigInt(mine[999]?.entry_id ?? 0), 1]);
    const full = await readEntries(db, userId, filter, { before: short.next ?? 0n, limit: 7 });
    expect(plain(full.rows)).toEqual(plainModel(mine, filter).slice(0, 7));
    expect(full.next).toBe(BigInt(full.rows.at(-1)?.entry_id ?? 0));
  });
});
