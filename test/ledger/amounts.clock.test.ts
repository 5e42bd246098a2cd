/** Here for a database of its own: its entries belong to no records, each of which a reconciliation would name. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { reasonCode, stepCode } from "../../src/ledger/codes.ts";
import type { LedgerFilter } from "../../src/ledger/filter.ts";
import { NEWEST, readEntries } from "../../src/ledger/history.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { newAsset, fund } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";
import { modelEntries } from "../support/ledger-model.ts";
import { plain, plainModel, readAll } from "../support/ledger-read.ts";

const db = env.DB;

/** A user whose reserves have these amounts, oldest first, written as a book would. */
async function reserver(amounts: readonly number[]): Promise<string> {
  const { userId } = await newUser();
  const { key } = newAsset();
  await fund(userId, key, BigInt(amounts.reduce((sum, amount) => sum + amount, 1)));
  const id = await first<{ a: number; p: number }>(
    db,
    sql`SELECT max(iif(kind = 'available', account_id, 0)) AS a, max(iif(kind = 'pending', account_id, 0)) AS p
    FROM accounts WHERE owner = ${uuid(userId)}`,
  );
  for (let start = 0; start < amounts.length; start += 5_000) {
    await all(
      db,
      sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
      SELECT ${id?.a ?? 0}, ${id?.p ?? 0}, value, ${reasonCode("reserve_rfq")}, randomblob(16), ${stepCode("reserve")}, 0,
        (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1) FROM json_each(${JSON.stringify(amounts.slice(start, start + 5_000))})`,
    );
  }
  return userId;
}

/** `readEntries`, and which of its ways it went: the names of the queries by what they alone say. */
async function readNoting(
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; limit: number },
) {
  const asked: string[] = [];
  const noting = {
    prepare: (text: string) => {
      const way =
        ["amount_runs", "fitting", "found AS"].find((word) => text.includes(word)) ?? "merged";
      if (asked.at(-1) !== way) asked.push(way);
      return db.prepare(text);
    },
  } as unknown as D1Database;
  return { ...(await readEntries(noting, userId, filter, page)), asked };
}

describe("an amount filter finds what lies beyond the newest entries, in pages without gap", () => {
  it("when the fitting amounts are few, each is a run of its own", async () => {
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
      expect([filter, plain(await readAll(db, userId, filter, 7))]).toEqual([
        filter,
        plainModel(mine, filter),
      ]);
    }
    expect(
      (await readNoting(userId, { minAmount: 6n }, { before: NEWEST, limit: 7 })).asked,
    ).toEqual(["merged", "amount_runs"]);
  });

  it("when they are many but the entries are not, these are sorted", async () => {
    const userId = await reserver(
      Array.from({ length: 3_000 }, (_, i) => (i < 2_500 ? 1_000 + ((i * 7_919) % 2_500) : 5)),
    );
    const mine = await modelEntries(db, userId);
    for (const filter of [
      { minAmount: 6n },
      { minAmount: 1_100n, maxAmount: 3_000n, account: "pending" },
    ] as LedgerFilter[]) {
      expect([filter, plain(await readAll(db, userId, filter, 700))]).toEqual([
        filter,
        plainModel(mine, filter),
      ]);
    }
    expect(
      (await readNoting(userId, { minAmount: 6n }, { before: NEWEST, limit: 7 })).asked,
    ).toEqual(["merged", "amount_runs", "fitting"]);
  });

  it("when both are many, the owner's entries are read in spans, the last of a span and the first of the next too", async () => {
    // The first span, of 16 384 transfers, ends among those that fit: a page of 400 begins in it and ends beyond.
    const userId = await reserver(
      Array.from({ length: 24_400 }, (_, i) => (i < 8_000 ? 1_000 + i : 5)),
    );
    const mine = await modelEntries(db, userId);
    const filter = { minAmount: 6n };
    const { rows, asked } = await readNoting(userId, filter, { before: NEWEST, limit: 400 });
    expect(plain(rows)).toEqual(plainModel(mine, filter).slice(0, 400));
    expect(asked).toEqual(["merged", "amount_runs", "fitting", "found AS", "fitting"]);
    expect(plain(await readAll(db, userId, filter, 4_000))).toEqual(plainModel(mine, filter));
  }, 20_000);
});
