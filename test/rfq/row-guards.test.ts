/** Open quotes and requests change only by a legal transition, by any statement. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";

import { all, type Expr, expr, raw, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { storedColumns } from "../support/ledger.ts";
import { command, quotedMarket, submit } from "../support/market.ts";

const db = env.DB;
const anId = () => uuid(uuidv7());

const QUOTE_TERMS: readonly (readonly [column: string, value: Expr])[] = [
  ["quote_id", anId()],
  ["request_id", anId()],
  ["maker_id", anId()],
  ["credential", anId()],
  ["asset", expr`'venue_one:0x2'`],
  ["amount", expr`'11'`],
  ["side", expr`'Ask'`],
  ["price", expr`price + 1`],
  ["usdc_amount", expr`usdc_amount + 1`],
  ["taker_fee", expr`taker_fee + 1`],
  ["maker_fee", expr`maker_fee + 1`],
  ["reserve", expr`reserve + 1`],
  ["opened_at", expr`opened_at - 1`],
  ["expires_at", expr`expires_at + 1`],
  ["opened_group", expr`opened_group - 1`],
  ["label", expr`'other'`],
  ["key_hash", expr`x'01'`],
  ["terms_hash", expr`x'01'`],
  ["maker_open", expr`maker_open - 1`],
  ["complement", expr`'venue_four:0x2'`],
];
const REQUEST_TERMS: typeof QUOTE_TERMS = [
  ["request_id", anId()],
  ["requester_id", anId()],
  ["asset", expr`'venue_one:0x2'`],
  ["amount", expr`'11'`],
  ["usdc_amount", expr`11`],
  ["side", expr`'Ask'`],
  ["disclosed", expr`1 - disclosed`],
  ["opened_at", expr`opened_at - 1`],
  ["expires_at", expr`expires_at + 1`],
  ["opened_group", expr`opened_group - 1`],
  ["label", expr`'other'`],
  ["key_hash", expr`x'01'`],
  ["terms_hash", expr`x'01'`],
];

const newest = expr`SELECT max(seq) FROM commit_groups`;
const ILLEGAL_ENDS: readonly (readonly [name: string, set: ReturnType<typeof sql>])[] = [
  ["without an operation", sql`status = 'expired', ended_group = ${newest}`],
  ["without a group", sql`status = 'expired', ended_by = ${anId()}`],
  ["by an older group", sql`status = 'expired', ended_by = ${anId()}, ended_group = ${newest} - 1`],
  ["but stays open", sql`ended_by = ${anId()}, ended_group = ${newest}`],
];

const TABLES = [
  { table: "quotes", key: "quote_id", terms: QUOTE_TERMS },
  { table: "requests", key: "request_id", terms: REQUEST_TERMS },
] as const;

async function recordOf(table: "quotes" | "requests", key: string) {
  const { quote, request } = await quotedMarket();
  const id = table === "quotes" ? quote.quote_id : request.request_id;
  return sql`${raw(key)} = ${uuid(id)}`;
}

it("gives only a cancelled quote a reason, and names its replacement only then", async () => {
  const record = await recordOf("quotes", "quote_id");
  const ended = sql`ended_by = ${anId()}, ended_group = ${newest}`;
  for (const set of [
    sql`cancel_reason = 'timeout'`,
    sql`status = 'rejected', cancel_reason = 'timeout', ${ended}`,
    sql`status = 'cancelled', cancel_reason = 'expired', ${ended}`,
    sql`status = 'cancelled', cancel_reason = 'replaced', ${ended}`,
    sql`status = 'cancelled', cancel_reason = 'timeout', replaced_by = ${anId()}, ${ended}`,
    sql`status = 'cancelled', replaced_by = ${anId()}, ${ended}`,
    sql`status = 'rejected', cancel_reason = 'outbid', ${ended}`,
  ])
    await expect(all(db, sql`UPDATE quotes SET ${set} WHERE ${record}`), set.text).rejects.toThrow(
      /CHECK constraint failed: quotes_(cancel_reason|replaced_by)/,
    );
});

for (const { table, key, terms } of TABLES) {
  it(`rejects a change of each term of an open record in ${table}`, async () => {
    const record = await recordOf(table, key);
    for (const [column, value] of terms)
      await expect(
        all(db, sql`UPDATE ${raw(table)} SET ${raw(column)} = ${value} WHERE ${record}`),
        column,
      ).rejects.toThrow("append-only: the terms of a");
    // The list above is complete.
    const columns = await all<{ name: string }>(
      db,
      sql`SELECT name FROM pragma_table_info(${table})
        WHERE name NOT IN ('status', 'cancel_reason', 'replaced_by', 'ended_by', 'ended_group',
          'stuck_at')`,
    );
    expect(terms.map(([column]) => column)).toEqual(columns.map(({ name }) => name));
  });

  it(`rejects an illegal end of an open record in ${table}`, async () => {
    const record = await recordOf(table, key);
    for (const [name, set] of ILLEGAL_ENDS)
      await expect(
        all(db, sql`UPDATE ${raw(table)} SET ${set} WHERE ${record}`),
        name,
      ).rejects.toThrow("of the newest group");
  });

  it(`keeps open records in ${table} from being deleted or replaced`, async () => {
    const record = await recordOf(table, key);
    await expect(all(db, sql`DELETE FROM ${raw(table)} WHERE ${record}`)).rejects.toThrow(
      "append-only: an open",
    );
    const columns = await storedColumns(db, table);
    await expect(
      all(
        db,
        sql`INSERT OR REPLACE INTO ${raw(table)} (${columns})
          SELECT ${columns} FROM ${raw(table)} WHERE ${record}`,
      ),
    ).rejects.toThrow("append-only");
  });
}

describe("a promise", () => {
  const promisedOf = async (makerId: string) =>
    (
      await all<{ promised: number; free: number }>(
        db,
        sql`SELECT promised, balance - promised AS free FROM accounts
          WHERE owner = ${uuid(makerId)} AND kind = 'available' AND asset <> 'usdc'`,
      )
    )[0];

  it("keeps its funds from every other debit", async () => {
    const { book, maker, quote } = await quotedMarket();
    const { promised = 0, free = 0 } = (await promisedOf(maker.userId)) ?? {};
    expect(promised).toBe(10);
    // As a guard that forgets the promise would post it.
    const account = (kind: string) => sql`(SELECT account_id FROM accounts
      WHERE owner = ${uuid(maker.userId)} AND asset = ${book} AND kind = ${kind})`;
    const debit = (amount: number) =>
      all(
        db,
        sql`INSERT OR IGNORE INTO transfers (from_account, to_account, amount, reason, ref, step,
            line, at) SELECT ${account("available")}, ${account("pending")}, ${amount}, 2,
            ${anId()}, 5, 0, at FROM commit_groups ORDER BY seq DESC LIMIT 1`,
      );
    await expect(debit(free + 1)).rejects.toThrow("balance not moved");
    await submit(command.cancelQuote(maker, quote.quote_id));
    expect((await promisedOf(maker.userId))?.promised).toBe(0);
  });

  it.each([
    ["more than the balance", "promised = balance + 1"],
    ["less than nothing", "promised = -1"],
    ["beside a balance that moves", "promised = promised + 1, balance = balance + 1"],
  ])("is never %s", async (_, set) => {
    const { maker } = await quotedMarket();
    for (const clause of ["UPDATE", "UPDATE OR REPLACE"])
      await expect(
        all(
          db,
          sql`${raw(clause)} accounts SET ${raw(set)}
            WHERE owner = ${uuid(maker.userId)} AND kind = 'available'`,
        ),
      ).rejects.toThrow(/accounts_promised|moves only by a transfer/);
  });

  it("is of an available account only", async () => {
    const { maker } = await quotedMarket();
    await expect(
      all(
        db,
        sql`UPDATE accounts SET promised = 0 + 1
          WHERE owner = ${uuid(maker.userId)} AND kind = 'pending'`,
      ),
    ).rejects.toThrow("accounts_promised");
  });

  it("refuses every quote that its maker cannot fund", async () => {
    const record = await recordOf("quotes", "quote_id");
    const columns = await storedColumns(db, "quotes");
    const copy = sql`SELECT ${columns} FROM quotes WHERE ${record}`;
    await all(db, sql`CREATE TABLE copied AS ${copy}`);
    await all(db, sql`UPDATE copied SET quote_id = ${anId()}, reserve = 1000000`);
    for (const clause of ["INSERT", "INSERT OR IGNORE"])
      await expect(
        all(db, sql`${raw(clause)} INTO quotes (${columns}) SELECT ${columns} FROM copied`),
      ).rejects.toThrow("the maker cannot promise it");
    await all(db, sql`DROP TABLE copied`);
  });
});
