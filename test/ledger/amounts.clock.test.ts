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

/** `readEntries`, and the tables that tell which queries it sent. */
async function readRecording(
  userId: string,
  filter: LedgerFilter,
  page: { before: bigint; limit: number },
) {
  const sent: string[] = [];
  const recording = {
    prepare: (text: string) => {
      const table = ["found AS", "AS first"].find((word) => text.includes(word)) ?? "merged";
      // Every page also asks what is in the archive.
      if (!text.includes("AS archived")) sent.push(table);
      return db.prepare(text);
    },
  } as unknown as D1Database;
  return { ...(await readEntries(recording, userId, filter, page)), sent };
}

describe("an amount filter beyond the newest entries", () => {
  it("scans the user's entries", async () => {
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
      (await readRecording(userId, { minAmount: 6n }, { before: NEWEST, limit: 7 })).sent,
    ).toEqual(["merged", "AS first", "found AS"]);
  });

  it("reads many entries of many amounts across span boundaries", async () => {
    // The first span of 16 384 transfers ends among those that fit, so that a page of 400 begins
    // in this span and ends in the next.
    const userId = await reserver(
      Array.from({ length: 24_400 }, (_, i) => (i < 8_000 ? 1_000 + i : 5)),
    );
    const mine = await modelEntries(db, userId);
    const filter = { minAmount: 6n };
    const { rows, sent } = await readRecording(userId, filter, { before: NEWEST, limit: 400 });
    expect(plain(rows)).toEqual(plainModel(mine, filter).slice(0, 400));
    expect(sent).toEqual(["merged", "AS first", "found AS", "found AS"]);
    expect(plain(await readAll(db, userId, filter, 4_000))).toEqual(plainModel(mine, filter));
  }, 20_000);
});
