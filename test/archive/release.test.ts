import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, expect, it } from "vitest";
import { releaseRound } from "../../src/archive/release.ts";
import { encodeSeal } from "../../src/archive/seal-format.ts";
import { lastSeals } from "../../src/archive/seal-row.ts";
import { readSeal } from "../../src/archive/seal-store.ts";
import { verifyJournal } from "../../scripts/operator/verify-database.ts";
import { NEWEST, readEntries } from "../../src/ledger/history.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { all, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { edit, endWithdrawal, queueWithdrawal, storedColumns } from "../support/ledger.ts";
import { command, commitCommand } from "../support/market.ts";
import { withBatch } from "../support/slow-database.ts";
import { newUser } from "../support/users.ts";
import { bucketWith, SealedJournal, Sealing } from "./sealing.ts";
import { settings } from "../support/http.ts";
import { itInRelease } from "../support/depth.ts";

const journal = new SealedJournal(env.RELEASED_DB, "released");
const { db } = journal;
const sealing = new Sealing(journal);

beforeAll(() => journal.open());
beforeEach(() => sealing.sealAll());

type Release = Partial<Parameters<typeof releaseRound>[0]>;

const DAY_MS = 86_400_000;
const round = (changed: Release = {}) =>
  releaseRound({
    db,
    bucket: sealing.bucket,
    settings: settings(),
    lagMs: 0,
    matchesMs: DAY_MS,
    ...changed,
  });

async function releaseAll(): Promise<void> {
  await sealing.sealAll();
  while ((await round()).status !== "idle");
}

async function releaseMatches(): Promise<void> {
  while ((await round({ matchesMs: 0 })).status !== "idle");
}

/** Delivers what is sealed, so that the next round releases it. */
async function deliverAll(): Promise<void> {
  await sealing.sealAll();
  while ((await round({ lagMs: 60_000 })).status === "delivered");
}

const transfersOf = (id: string) => journal.count(`transfers WHERE ref = x'${hexOf(id)}'`);
const hexOf = (id: string) => id.replaceAll("-", "");
const reconciled = () => reconcile(db, { macKeys: settings(), chains: [], full: true });

it("deletes what is sealed and holds what can still move", async () => {
  const { quotes, matchId, requester } = await journal.trade();
  const withdrawal = await queueWithdrawal(requester, "usdc", 10n, { db });
  // The newest transfer of all always stays.
  await newUser({ usdc: 1n }, db);
  expect(await transfersOf(quotes.accepted)).toBe(2);
  await releaseAll();
  expect(await transfersOf(withdrawal.withdrawalId)).toBe(1);
  for (const ended of [quotes.accepted, matchId]) expect(await transfersOf(ended)).toBe(0);
  await endWithdrawal(withdrawal, "Paid", db);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
  expect(await verifyJournal(db, sealing.bucket, settings())).toMatchObject({ ok: true });
});

const recordOf = (table: string, column: string, id: string) =>
  journal.count(`${table} WHERE ${column} = x'${hexOf(id)}'`);

it("deletes requests and quotes that ended, and matches a day later", async () => {
  const { requestId, openRequestId, quotes, matchId } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await releaseAll();
  for (const ended of [quotes.accepted, quotes.rejected, quotes.cancelled])
    expect(await recordOf("quotes", "quote_id", ended)).toBe(0);
  expect(await recordOf("quotes", "quote_id", quotes.open)).toBe(1);
  expect(await recordOf("requests", "request_id", requestId)).toBe(0);
  expect(await recordOf("requests", "request_id", openRequestId)).toBe(1);
  expect(await recordOf("matches", "match_id", matchId)).toBe(1);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
  await releaseMatches();
  expect(await recordOf("matches", "match_id", matchId)).toBe(0);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
  expect(await verifyJournal(db, sealing.bucket, settings())).toMatchObject({ ok: true });
});

/** After a long outage the scan over groups is behind, so a seal may contain transfers only. */
it("finds no difference when a match leaves before its request is sealed", async () => {
  const { requestId, matchId } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await journal.scanned();
  await all(
    db,
    sql`UPDATE ledger_checkpoints SET position = coalesce((SELECT max(up_to_group) FROM journal_seals), 0)
      WHERE scan = 'groups'`,
  );
  expect(await sealing.round()).toMatchObject({ status: "sealed" });
  await releaseMatches();
  expect(await recordOf("matches", "match_id", matchId)).toBe(0);
  expect(await recordOf("requests", "request_id", requestId)).toBe(1);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
});

/** A freeze may end more quotes at one instant than one batch may delete. */
it("deletes the quotes of a seal in several batches", async () => {
  const { quotes } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll();
  const [seal] = await lastSeals(db, 1);
  expect(seal?.quotes).toBe(3);
  const ended = [quotes.accepted, quotes.rejected, quotes.cancelled];
  const left: number[] = [];
  const failpoint = async () =>
    void left.push(
      await journal.count(
        `quotes WHERE quote_id IN (${ended.map((id) => `x'${hexOf(id)}'`).join()})`,
      ),
    );
  while ((await round({ perSlice: 2, failpoint })).status !== "idle");
  expect(left).toContain(1);
  expect(left.at(-1)).toBe(0);
  expect(await recordOf("quotes", "quote_id", quotes.open)).toBe(1);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
});

it("keeps a request until its last quote is sealed", async () => {
  const { openRequestId, quotes, book, requester } = await journal.trade();
  await releaseAll();
  for (let count = 0; count < 3; count++) await newUser({ usdc: 1n }, db);
  await commitCommand(book, command.cancelRequest(requester, openRequestId), db);
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll({ limit: 1 });
  // The request is in an earlier seal than the quote that ended with it.
  while ((await recordOf("requests", "request_id", openRequestId)) === 1) {
    expect(await recordOf("quotes", "quote_id", quotes.open)).toBe(1);
    const { status } = await round();
    expect(status).not.toBe("idle");
  }
  expect(await recordOf("quotes", "quote_id", quotes.open)).toBe(0);
  await releaseAll();
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
});

it("keeps the sums of the matches that it deletes", async () => {
  const sums = () =>
    all(
      db,
      sql`SELECT sum(trades) AS trades, sum(usdc) AS usdc, sum(fees) AS fees FROM (
        SELECT 1 AS trades, usdc_amount AS usdc, taker_fee + maker_fee AS fees FROM matches
        UNION ALL SELECT trades, usdc_amount, taker_fee + maker_fee FROM venue_days)`,
    );
  const candles = () =>
    all(
      db,
      sql`SELECT sum(trades) AS trades, sum(usdc) AS usdc FROM (
        SELECT 1 AS trades, usdc_amount AS usdc FROM matches
        UNION ALL SELECT trades, usdc_amount FROM candles WHERE step = 1440)`,
    );
  await journal.trade();
  const before = [await sums(), await candles()];
  await releaseAll();
  await releaseMatches();
  expect([await sums(), await candles()]).toEqual(before);
  expect(await journal.count("venue_days")).toBeGreaterThan(0);
});

it("adds no match to the candles that cron has added", async () => {
  const inCandles = () => all(db, sql`SELECT sum(trades) AS trades FROM candles`);
  await all(
    db,
    sql`INSERT INTO candle_cursor (one, minute, moved_group) VALUES (1, ${2 ** 30}, 1)`,
  );
  await journal.trade();
  const [before, matches] = [await inCandles(), await journal.count("matches")];
  await releaseAll();
  await releaseMatches();
  expect(await inCandles()).toEqual(before);
  expect(await journal.count("matches")).toBeLessThan(matches);
  await all(db, sql`DELETE FROM candle_cursor`);
});

it("compares the sums of trades with matches that are in the archive", async () => {
  const { matchId, requester, maker, book } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await releaseAll();
  await releaseMatches();
  expect(await recordOf("matches", "match_id", matchId)).toBe(0);
  // The second trade adds to sums of which the first part is in the archive.
  const ask = command.openRequest(requester, book, { amount: 3n });
  const quote = command.placeQuote(maker, ask.requestId, 500_000);
  for (const sent of [ask, quote, command.accept(requester, quote.quoteId)])
    await commitCommand(book, sent, db);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
  const change = (user: { userId: string }, column: string, by: number) =>
    edit(db, "accounts", [
      sql`UPDATE accounts SET ${raw(column)} = ${raw(column)} + ${by}
        WHERE owner = ${uuid(user.userId)} AND asset = ${book} AND traded > 0`,
    ]);
  const wrong = async () => {
    const { differences } = await reconciled();
    await all(db, sql`UPDATE alerts SET resolved_at = 1 WHERE resolved_at IS NULL`);
    return differences.map(({ check, amount }) => [check, amount]);
  };
  await change(requester, "traded", 1);
  expect(await wrong()).toEqual([["position_mismatch", "1"]]);
  await change(requester, "traded", -1);
  // Nothing of the account is left in the database.
  await newUser({ usdc: 1n }, db);
  await releaseAll();
  await change(maker, "traded_usdc", 1);
  expect(await wrong()).toEqual([["position_mismatch", "0"]]);
  await change(maker, "traded_usdc", -1);
  await releaseMatches();
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
});

it("deletes no record if the database lacks one that the seal contains", async () => {
  const { quotes, matchId, requestId } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  await deliverAll();
  const lacking = async (table: string, one: Sql) => {
    const columns = await storedColumns(db, table);
    await all(db, sql`CREATE TABLE kept AS SELECT ${columns} FROM ${raw(table)} WHERE ${one}`);
    await edit(db, table, [sql`DELETE FROM ${raw(table)} WHERE ${one}`]);
    const before = await journal.count(table);
    expect(await round({ matchesMs: 0 })).toMatchObject({ status: "mismatch" });
    expect(await journal.count(table)).toBe(before);
    await edit(db, table, [sql`INSERT INTO ${raw(table)} (${columns}) SELECT * FROM kept`]);
    await all(db, sql`DROP TABLE kept`);
  };
  await lacking("quotes", sql`quote_id = ${uuid(quotes.cancelled)}`);
  await lacking("requests", sql`request_id = ${uuid(requestId)}`);
  expect(await round()).toMatchObject({ status: "releasing" });
  while ((await round()).status !== "idle");
  await lacking("matches", sql`match_id = ${uuid(matchId)}`);
  expect(await round({ matchesMs: 0 })).toMatchObject({ status: "matches_released" });
});

it("refuses to delete a record that is not released", async () => {
  const { quotes, matchId, requestId } = await journal.trade();
  await newUser({ usdc: 1n }, db);
  const removals = [
    sql`DELETE FROM quotes WHERE quote_id = ${uuid(quotes.cancelled)}`,
    sql`DELETE FROM requests WHERE request_id = ${uuid(requestId)}`,
    sql`DELETE FROM matches WHERE match_id = ${uuid(matchId)}`,
  ];
  const refused = async (statements: readonly Sql[]) => {
    for (const statement of statements)
      await expect(all(db, statement)).rejects.toThrow("append-only");
  };
  await refused(removals);
  await sealing.sealAll();
  await refused(removals);
  await deliverAll();
  await refused(removals);
  await releaseAll();
  await refused(removals.slice(2));
  await refused([sql`DELETE FROM quotes`, sql`DELETE FROM requests`, sql`DELETE FROM matches`]);
});

it("deletes what was held once its record has ended and is sealed", async () => {
  const { requester } = await journal.trade();
  const withdrawal = await queueWithdrawal(requester, "usdc", 10n, { db });
  await releaseAll();
  expect(await transfersOf(withdrawal.withdrawalId)).toBe(1);
  await endWithdrawal(withdrawal, "Paid", db);
  // Both transfers of a record stay until the second one is sealed.
  expect(await reconciled()).toMatchObject({ ok: true });
  expect(await transfersOf(withdrawal.withdrawalId)).toBe(2);
  await newUser({ usdc: 1n }, db);
  await releaseAll();
  expect(await transfersOf(withdrawal.withdrawalId)).toBe(0);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
});

it("holds a withdrawal that waits for its owner's approval", async () => {
  const { requester } = await journal.trade();
  const withdrawal = await queueWithdrawal(requester, "usdc", 10n, { db });
  const become = (status: string) =>
    all(
      db,
      sql`UPDATE withdrawals SET status = ${status}
        WHERE withdrawal_id = ${uuid(withdrawal.withdrawalId)}`,
    );
  // Events are compared with the status only once.
  expect(await reconciled()).toMatchObject({ ok: true });
  await become("awaiting_approval");
  await newUser({ usdc: 1n }, db);
  await releaseAll();
  expect(await transfersOf(withdrawal.withdrawalId)).toBe(1);
  await become("queued");
  await endWithdrawal(withdrawal, "Paid", db);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
});

it("keeps a transfer until the last one of its record is sealed", async () => {
  const { requester } = await journal.trade();
  const withdrawal = await queueWithdrawal(requester, "usdc", 10n, { db });
  await deliverAll();
  await endWithdrawal(withdrawal, "Paid", db);
  await newUser({ usdc: 1n }, db);
  while ((await round()).status !== "idle");
  expect(await transfersOf(withdrawal.withdrawalId)).toBe(2);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
});

itInRelease("numbers on after everything old was deleted", async () => {
  await journal.trade();
  await releaseAll();
  const [before] = await lastSeals(db, 1);
  await newUser({ usdc: 1n }, db);
  const [row] = await all<{ id: number }>(db, sql`SELECT max(transfer_id) AS id FROM transfers`);
  expect(row?.id).toBeGreaterThan(before?.upTo ?? 0);
});

it("waits for readers between delivery and release", async () => {
  await releaseAll();
  await journal.trade();
  await sealing.sealAll();
  const before = await journal.count("transfers");
  expect(await round({ lagMs: 60_000 })).toMatchObject({ status: "delivered" });
  expect(await round({ lagMs: 60_000 })).toMatchObject({ status: "idle" });
  expect(await journal.count("transfers")).toBe(before);
});

itInRelease("delivers the next seal while an earlier one waits for its readers", async () => {
  await releaseAll();
  for (let count = 0; count < 2; count++) {
    await journal.trade();
    await sealing.sealAll();
    expect(await round({ lagMs: 60_000 })).toMatchObject({ status: "delivered" });
  }
  expect(await journal.count("journal_seals WHERE delivered_at IS NULL")).toBe(0);
});

it("answers 503 rather than a short page, and only for who has old entries", async () => {
  const { requester, matchId } = await journal.trade();
  const page = (userId: string, limit: number, filter = {}) =>
    readEntries(db, userId, filter, { before: NEWEST, limit });
  const whole = await page(requester.userId, 100);
  await newUser({ usdc: 1n }, db);
  await releaseAll();
  const stranger = await newUser({ usdc: 5n }, db);
  const later = await queueWithdrawal(requester, "usdc", 10n, { db });
  expect((await page(stranger.userId, 100)).rows).toHaveLength(1);
  expect((await page(requester.userId, 1)).rows).toHaveLength(1);
  expect((await page(requester.userId, 2, { refId: later.withdrawalId })).rows).toHaveLength(2);
  expect(whole.rows.length).toBeGreaterThan(2);
  // The second entry is the last one here, so only the archive knows whether more follow.
  await expect(page(requester.userId, 2)).rejects.toMatchObject({ status: 503 });
  await expect(page(requester.userId, 1, { refId: matchId })).rejects.toMatchObject({
    status: 503,
  });
});

class Killed extends Error {}

const at = (name: string) => (reached: string) =>
  reached === name ? Promise.reject(new Killed(name)) : Promise.resolve();

it.each(["seal_delivered", "seal_releasing", "seal_sliced", "seal_released"])(
  "continues after a kill at %s",
  async (name) => {
    await releaseAll();
    await journal.trade();
    await sealing.sealAll();
    const killed = async () => {
      while ((await round({ failpoint: at(name) })).status !== "idle");
    };
    await expect(killed()).rejects.toThrow(Killed);
    await newUser({ usdc: 1n }, db);
    await releaseAll();
    expect(await journal.count("journal_seals WHERE held IS NULL")).toBe(0);
    expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
  },
);

it.each(["before the batch", "after the batch"])("releases once if D1 fails %s", async (when) => {
  await journal.trade();
  await deliverAll();
  let failures = 1;
  const failing = withBatch(db, async (statements) => {
    if (failures-- <= 0) return db.batch(statements);
    if (when === "after the batch") await db.batch(statements);
    throw new Error("Network connection lost");
  });
  await round({ db: failing }).catch(() => undefined);
  await releaseAll();
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
});

it("releases once if two sealers do it at once", async () => {
  await journal.trade();
  await deliverAll();
  await Promise.allSettled([round(), round()]);
  await releaseAll();
  expect(await journal.count("journal_seals WHERE held IS NULL")).toBe(0);
  expect(await reconciled()).toMatchObject({ ok: true, differences: [] });
});

it("deletes nothing that the archive does not have", async () => {
  await journal.trade();
  await deliverAll();
  const before = await journal.count("transfers");
  const [last] = await lastSeals(db, 1);
  if (last === undefined) throw new Error("nothing is sealed");
  const { seal } = await readSeal(sealing.bucket, last);
  const other = encodeSeal({
    ...seal,
    quotes: seal.quotes.map((quote) => ({ ...quote, price: 1 })),
  });
  for (const body of [null, new Response(other.bytes.slice(1)), new Response(other.bytes)]) {
    const bucket = bucketWith(sealing.bucket, { get: () => Promise.resolve(body) });
    expect(await round({ bucket })).toMatchObject({ status: "mismatch" });
    expect(await journal.count("transfers")).toBe(before);
  }
  expect(await round()).toMatchObject({ status: "releasing" });
  await releaseAll();
});

it("deletes nothing if the database has more or fewer transfers than the seal", async () => {
  const { matchId } = await journal.trade();
  await deliverAll();
  const before = await journal.count("transfers");
  const one = sql`transfer_id = (SELECT min(transfer_id) FROM transfers
    WHERE ref = ${uuid(matchId)})`;
  await all(db, sql`CREATE TABLE kept AS SELECT * FROM transfers WHERE ${one}`);
  await edit(db, "transfers", [sql`DELETE FROM transfers WHERE ${one}`]);
  await expect(round()).rejects.toThrow("rolled back");
  expect(await journal.count("transfers")).toBe(before - 1);
  await edit(db, "transfers", [sql`INSERT INTO transfers SELECT * FROM kept`]);
  await all(db, sql`DROP TABLE kept`);
  expect(await round()).toMatchObject({ status: "releasing" });
  await releaseAll();
});

it("refuses every other deletion", async () => {
  const { matchId, requester } = await journal.trade();
  const { withdrawalId } = await queueWithdrawal(requester, "usdc", 10n, { db });
  await newUser({ usdc: 1n }, db);
  const remove = (of: string) => all(db, sql`DELETE FROM transfers WHERE ref = ${uuid(of)}`);
  // Not sealed, sealed, delivered.
  await expect(remove(matchId)).rejects.toThrow("append-only");
  await sealing.sealAll();
  await expect(remove(matchId)).rejects.toThrow("append-only");
  await deliverAll();
  await expect(remove(matchId)).rejects.toThrow("append-only");
  await releaseAll();
  await expect(remove(withdrawalId)).rejects.toThrow("append-only");
  await expect(all(db, sql`DELETE FROM transfers`)).rejects.toThrow("append-only");
});

it("never posts a reserve twice, although the first one is old", async () => {
  const { requester } = await journal.trade();
  const { withdrawalId } = await queueWithdrawal(requester, "usdc", 10n, { db });
  await releaseAll();
  const again = sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step,
      line, at)
    SELECT from_account, to_account, amount, reason, ref, step, line,
      (SELECT max(at) FROM commit_groups)
    FROM transfers WHERE ref = ${uuid(withdrawalId)}`;
  await expect(all(db, again)).rejects.toThrow("append-only: transfer exists");
});

it("seals what it held once only", async () => {
  const { requester } = await journal.trade();
  const withdrawal = await queueWithdrawal(requester, "usdc", 10n, { db });
  await releaseAll();
  await endWithdrawal(withdrawal, "Paid", db);
  await releaseAll();
  const refs = [];
  for (const row of (await lastSeals(db, 1_000)).toReversed()) {
    const { seal } = await readSeal(sealing.bucket, row);
    refs.push(...seal.transfers.map(({ ref, step }) => `${ref} ${step}`));
  }
  const id = hexOf(withdrawal.withdrawalId);
  expect(refs.filter((ref) => ref.startsWith(id))).toEqual([`${id} 5`, `${id} 2`]);
});
