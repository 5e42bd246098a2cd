/** Rows that never change again, each tried by direct SQL under every conflict clause. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { all, blob, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { endWithdrawal, newAddress, queueWithdrawal } from "../support/ledger.ts";
import { command, commitCommand, quotedMarket } from "../support/market.ts";

const db = env.DB;
const CLAUSES = ["", "OR REPLACE", "OR IGNORE", "OR ABORT", "OR FAIL"];

type History = Awaited<ReturnType<typeof history>>;

/** A match, the requester's deposit address, and their settled, failed and queued withdrawals. */
async function history() {
  const { book, requester, maker, request, quote } = await quotedMarket();
  await commitCommand(book, command.accept(requester, quote.quote_id));
  const settled = await queueWithdrawal(requester, "usdc", 10n);
  await endWithdrawal(settled, "Paid");
  const failed = await queueWithdrawal(requester, "usdc", 10n);
  await endWithdrawal(failed, "Failed");
  const queued = await queueWithdrawal(requester, "usdc", 10n);
  const address = blob(newAddress());
  await all(
    db,
    sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES ('local', ${address}, ${uuid(requester.userId)}, 0, randomblob(32), 0)`,
  );
  return {
    address,
    requester: uuid(requester.userId),
    quote: uuid(quote.quote_id),
    request: uuid(request.request_id),
    settled: uuid(settled.withdrawalId),
    failed: uuid(failed.withdrawalId),
    queued: uuid(queued.withdrawalId),
    maker: uuid(maker.userId),
    stream: accountStream(requester.userId),
  };
}

/** What is rejected changes nothing, so the tests share it. */
const kept = history();

const eventOf = ({ stream }: History) =>
  sql`stream_id = (SELECT stream_id FROM streams WHERE name = ${stream})`;

const CHANGES: Readonly<Record<string, (of: History, clause: Sql) => Sql>> = {
  "reopening an ended request": ({ request }, clause) =>
    sql`UPDATE ${clause} requests SET status = 'open' WHERE request_id = ${request}`,
  "reopening an ended quote": ({ quote }, clause) =>
    sql`UPDATE ${clause} quotes SET status = 'open' WHERE quote_id = ${quote}`,
  "changing an event": (of, clause) =>
    sql`UPDATE ${clause} event_runs SET events = '[]' WHERE ${eventOf(of)}`,
  "skipping an event's number": (of, clause) =>
    sql`INSERT ${clause} INTO event_runs (run_id, stream_id, last_seq, first_seq, at, ids, events)
      SELECT 1, stream_id, last_seq + 2, last_seq + 2, 1, x'', '[[0,22]]' FROM streams
      WHERE name = ${of.stream}`,
  "writing an event's number twice": (of, clause) =>
    sql`INSERT ${clause} INTO event_runs (run_id, stream_id, last_seq, first_seq, at, ids, events)
      SELECT 1, stream_id, last_seq + 1, last_seq, 1, x'', '[[0,22],[0,22]]'
      FROM streams WHERE name = ${of.stream}`,
  "numbering more events than there are": (of, clause) =>
    sql`INSERT ${clause} INTO event_runs (run_id, stream_id, last_seq, first_seq, at, ids, events)
      SELECT 1, stream_id, last_seq + 2, last_seq + 1, 1, x'', '[[0,22]]' FROM streams
      WHERE name = ${of.stream}`,
  "paying a withdrawal elsewhere": ({ queued }, clause) =>
    sql`UPDATE ${clause} withdrawals SET to_address = randomblob(20)
      WHERE withdrawal_id = ${queued}`,
  "paying another amount": ({ queued }, clause) =>
    sql`UPDATE ${clause} withdrawals SET amount = 11 WHERE withdrawal_id = ${queued}`,
  "failing a settled withdrawal": ({ settled }, clause) =>
    sql`UPDATE ${clause} withdrawals SET status = 'failed' WHERE withdrawal_id = ${settled}`,
  "queuing a failed withdrawal again": ({ failed }, clause) =>
    sql`UPDATE ${clause} withdrawals SET status = 'queued' WHERE withdrawal_id = ${failed}`,
  "giving a match to another maker": ({ quote, maker }, clause) =>
    sql`UPDATE ${clause} matches SET requester_id = ${maker} WHERE quote_id = ${quote}`,
  "giving a deposit address to another user": ({ address, maker }, clause) =>
    sql`UPDATE ${clause} deposit_addresses SET user_id = ${maker} WHERE address = ${address}`,
  "replacing the row of a deposit address": ({ address, maker }, clause) =>
    sql`INSERT ${clause} INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES ('local', ${address}, ${maker}, 0, randomblob(32), 0)`,
  "replacing a user's deposit address": ({ requester }, clause) =>
    sql`INSERT ${clause} INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES ('local', randomblob(20), ${requester}, 0, randomblob(32), 0)`,
};

describe.each(Object.entries(CHANGES))("%s", (_, change) => {
  it.each(CLAUSES)("is rejected %s", async (clause) => {
    await expect(all(db, change(await kept, raw(clause)))).rejects.toThrow(/append-only/);
  });
});

/** Unique columns, with the expression of another value. A user's own id is unique beside theirs. */
const UNIQUE = {
  matches: {
    match_id: "randomblob(16)",
    request_id: "randomblob(16)",
    quote_id: "randomblob(16)",
  },
  withdrawals: {
    withdrawal_id: "randomblob(16)",
    job_id: "randomblob(16)",
    payment_id: "randomblob(32)",
    client_withdrawal_id: "hex(randomblob(16))",
  },
} as const;

describe.each(Object.entries(UNIQUE))("a row of %s", (table, others) => {
  it.each(Object.keys(others))("is not replaced by one with its %s", async (same) => {
    const { queued, quote } = await kept;
    const columns = await all<{ name: string }>(
      db,
      sql`SELECT name FROM pragma_table_info(${table})`,
    );
    const names = columns.map(({ name }) => name);
    const fresh = new Map<string, string>(Object.entries(others));
    fresh.delete(same);
    const copy = sql`INSERT OR REPLACE INTO ${raw(table)} (${raw(names.join())})
      SELECT ${raw(names.map((name) => fresh.get(name) ?? name).join())} FROM ${raw(table)}
      WHERE ${table === "matches" ? sql`quote_id = ${quote}` : sql`withdrawal_id = ${queued}`}`;
    await expect(all(db, copy)).rejects.toThrow(/append-only/);
  });
});

it.each([
  "withdrawal_id = randomblob(16)",
  "job_id = randomblob(16)",
  "user_id = randomblob(16)",
  "client_withdrawal_id = 'other'",
  "payment_id = randomblob(32)",
  "chain = 'other'",
  "asset = 'venue_one:0x1'",
  "terms_mac = 'other'",
])("a withdrawal keeps its terms: %s", async (change) => {
  const { queued } = await kept;
  const update = sql`UPDATE withdrawals SET ${raw(change)} WHERE withdrawal_id = ${queued}`;
  await expect(all(db, update)).rejects.toThrow(/append-only: the terms/);
});

it.each([
  ["no operation", sql`NULL`, sql`(SELECT max(seq) FROM commit_groups)`],
  ["an older group", sql`randomblob(16)`, sql`(SELECT max(seq) - 1 FROM commit_groups)`],
])("a request or quote that ends by %s is rejected", async (_, endedBy, group) => {
  const { request, quote } = await quotedMarket();
  await history();
  for (const [table, row] of [
    ["quotes", sql`quote_id = ${uuid(quote.quote_id)}`],
    ["requests", sql`request_id = ${uuid(request.request_id)}`],
  ] as const) {
    const end = sql`UPDATE ${raw(table)} SET status = 'cancelled', ended_by = ${endedBy},
      ended_group = ${group} WHERE ${row}`;
    await expect(all(db, end)).rejects.toThrow(/newest group/);
  }
});

it("deleting a deposit address is rejected", async () => {
  const { address } = await kept;
  const deleted = sql`DELETE FROM deposit_addresses WHERE address = ${address}`;
  await expect(all(db, deleted)).rejects.toThrow(/append-only/);
});

it("a transfer at an earlier instant than the last one is rejected", async () => {
  await history();
  const back = sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line,
      at)
    SELECT from_account, to_account, 1, reason, ${uuid(uuidv7())}, step, 0,
      (SELECT max(at) FROM transfers) - 1
    FROM transfers ORDER BY transfer_id DESC LIMIT 1`;
  await expect(all(db, back)).rejects.toThrow(/time went back/);
});
