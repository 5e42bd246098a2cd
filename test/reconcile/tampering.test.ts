/**
 * Somebody edits the database file: every change of money, records or events is found, both by the
 * scan that follows new rows and by the full one. A database of its own, because most edits cannot
 * be undone.
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { addressOf, depositAddressFor } from "../../src/chain/addresses.ts";
import { reasonCode } from "../../src/ledger/codes.ts";
import type { Check, Difference } from "../../src/reconcile/difference.ts";
import { FEES_OWNER } from "../../src/ledger/post.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { defaultChain } from "../../src/platform/config.ts";
import { CUSTODY_FORMS } from "../../src/custody/custody-events.ts";
import { codesOf, kindsOf } from "../../src/platform/event-forms.ts";
import { RFQ_FORMS } from "../../src/rfq/rfq-event-forms.ts";
import { all, blob, expr, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { edit, endWithdrawal, fund, newAsset, queueWithdrawal } from "../support/ledger.ts";
import { command, commitCommand, matchOf } from "../support/market.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { newUser } from "../support/users.ts";
import { settings } from "../support/http.ts";
import { FULL } from "../support/depth.ts";

const db = env.SPARE_DB;
const KINDS = kindsOf(...RFQ_FORMS, ...CUSTODY_FORMS);

beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));

type History = Awaited<ReturnType<typeof history>>;

/**
 * A match with fees, an open, a cancelled and a rejected quote, a settled withdrawal, and a deposit
 * to an address.
 */
async function history() {
  const { key: book } = newAsset("venue_two");
  const requester = await newUser({ usdc: 10_000n }, db);
  const maker = await newUser({ [book]: 10_000n }, db);
  const ask = command.openRequest(requester, book, { amount: 1_000n });
  const [winner, loser] = [700_000, 800_000].map((price) =>
    command.placeQuote(maker, ask.requestId, price, 300),
  );
  const later = command.openRequest(requester, book, { amount: 1_000n });
  const [open, cancelled] = [900_000, 910_000].map((price) =>
    command.placeQuote(maker, later.requestId, price, 300),
  );
  if (!winner || !loser || !open || !cancelled) throw new Error("no quotes");
  for (const sent of [ask, winner, loser, later, open, cancelled])
    await commitCommand(book, sent, db);
  const match = matchOf(await commitCommand(book, command.accept(requester, winner.quoteId), db));
  await commitCommand(book, command.cancelQuote(maker, cancelled.quoteId), db);
  const withdrawal = await queueWithdrawal(requester, "usdc", 100n, { db });
  await endWithdrawal(withdrawal, "Paid", db);
  const chain = defaultChain(settings());
  const { address, salt } = depositAddressFor(settings(), chain, requester.userId, 0);
  await all(
    db,
    sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES (${chain.chain}, ${blob(address)}, ${uuid(requester.userId)}, 0, ${blob(salt)}, 0)`,
  );
  const { depositId } = await fund(requester.userId, "usdc", 1n, {
    chain: chain.chain,
    address,
    db,
  });
  return {
    book,
    makerId: maker.userId,
    address,
    depositId,
    requesterId: requester.userId,
    requesterStream: accountStream(requester.userId),
    requestId: ask.requestId,
    openRequestId: later.requestId,
    matchId: match.match_id,
    acceptedId: winner.quoteId,
    openQuoteId: open.quoteId,
    cancelledId: cancelled.quoteId,
    withdrawalId: withdrawal.withdrawalId,
  };
}

type Edit = {
  readonly title: string;
  readonly table: string;
  readonly statements: (of: History) => readonly Sql[];
  /** Checks that must find it. */
  readonly finds: readonly Check[];
};

const transferOf = (ref: string) =>
  sql`SELECT max(transfer_id) FROM transfers WHERE ref = ${uuid(ref)}`;
const accountOf = (userId: string, asset: string, kind = "available") =>
  sql`owner = ${uuid(userId)} AND asset = ${asset} AND kind = ${kind}`;
/** Moves both balances of the latest transfer of `ref` back, by statements on `accounts`. */
const withoutTransfer = (ref: string): Sql[] => [
  sql`UPDATE accounts SET balance = balance + t.amount FROM transfers t
    WHERE t.transfer_id = (${transferOf(ref)}) AND account_id = t.from_account`,
  sql`UPDATE accounts SET balance = balance - t.amount FROM transfers t
    WHERE t.transfer_id = (${transferOf(ref)}) AND account_id = t.to_account`,
];
const runOf = (stream: string, type: string) =>
  sql`stream_id = (SELECT stream_id FROM streams WHERE name = ${stream})
    AND ${placeOf(type)} IS NOT NULL`;
/** The path of the first event of a type in a run. */
const placeOf = (type: string) => expr`SELECT '$[' || e.key || ']' FROM json_each(events) e
  WHERE e.value ->> 1 IN (${raw(codesOf(KINDS, type).join(", "))}) LIMIT 1`;

const EDITS: readonly Edit[] = [
  {
    title: "a balance changed",
    table: "accounts",
    statements: (of) => [
      sql`UPDATE accounts SET balance = balance + 1 WHERE ${accountOf(of.requesterId, "usdc")}`,
    ],
    finds: ["balance_mismatch"],
  },
  {
    title: "a transfer deleted from the middle",
    table: "transfers",
    statements: (of) => [
      sql`DELETE FROM transfers WHERE transfer_id = (
        SELECT min(transfer_id) FROM transfers WHERE ref = ${uuid(of.acceptedId)})`,
    ],
    finds: ["record_mismatch", "running_balance_broken"],
  },
  {
    title: "the newest transfer deleted",
    table: "transfers",
    statements: (of) => [
      sql`DELETE FROM transfers WHERE transfer_id = (${transferOf(of.withdrawalId)})`,
    ],
    finds: ["record_mismatch", "balance_mismatch"],
  },
  {
    title: "a match added without transfers",
    table: "matches",
    statements: (of) => [
      sql`INSERT INTO matches SELECT randomblob(16), ${uuid(of.openRequestId)},
          ${uuid(of.openQuoteId)}, requester_id, maker_id, asset, side, amount, price, usdc_amount,
          taker_fee, maker_fee, at, matched_group, requester_label, maker_label, complement
        FROM matches WHERE match_id = ${uuid(of.matchId)}`,
    ],
    finds: ["record_mismatch", "request_mismatch", "event_mismatch"],
  },
  {
    title: "a match deleted",
    table: "matches",
    statements: (of) => [sql`DELETE FROM matches WHERE match_id = ${uuid(of.matchId)}`],
    finds: ["record_mismatch", "request_mismatch", "event_mismatch"],
  },
  {
    title: "a match given to another requester",
    table: "matches",
    statements: (of) => [
      sql`UPDATE matches SET requester_id = randomblob(16) WHERE match_id = ${uuid(of.matchId)}`,
    ],
    finds: ["record_mismatch", "request_mismatch", "event_mismatch"],
  },
  {
    title: "an accepted quote rejected",
    table: "quotes",
    statements: (of) => [
      sql`UPDATE quotes SET status = 'rejected' WHERE quote_id = ${uuid(of.acceptedId)}`,
    ],
    finds: ["terms_mismatch", "event_mismatch"],
  },
  {
    title: "a quote accepted without a match",
    table: "quotes",
    statements: (of) => [
      sql`UPDATE quotes SET status = 'accepted', ended_by = ${uuid(uuidv7())},
          ended_group = opened_group WHERE quote_id = ${uuid(of.openQuoteId)}`,
    ],
    finds: ["record_mismatch", "promised_mismatch", "event_mismatch"],
  },
  {
    title: "a quote that reserves more than is promised",
    table: "quotes",
    statements: (of) => [
      sql`UPDATE quotes SET reserve = reserve + 1 WHERE quote_id = ${uuid(of.openQuoteId)}`,
    ],
    finds: ["promised_mismatch"],
  },
  {
    title: "a promise changed",
    table: "accounts",
    statements: (of) => [
      sql`UPDATE accounts SET promised = promised - 1
        WHERE ${accountOf(of.makerId, of.book)}`,
    ],
    finds: ["promised_mismatch"],
  },
  {
    title: "a sum of what was bought changed",
    table: "accounts",
    statements: (of) => [
      sql`UPDATE accounts SET traded = traded + 1 WHERE ${accountOf(of.requesterId, of.book)}`,
    ],
    finds: ["position_mismatch"],
  },
  {
    title: "a sum of what was paid changed",
    table: "accounts",
    statements: (of) => [
      sql`UPDATE accounts SET traded_usdc = traded_usdc - 1
        WHERE ${accountOf(of.requesterId, of.book)}`,
    ],
    finds: ["position_mismatch"],
  },
  {
    title: "the amount of a match changed",
    table: "matches",
    statements: (of) => [
      sql`UPDATE matches SET amount = 4611686018427387904 WHERE match_id = ${uuid(of.matchId)}`,
    ],
    finds: ["position_mismatch", "terms_mismatch"],
  },
  {
    title: "an ended quote reopened",
    table: "quotes",
    statements: (of) => [
      sql`UPDATE quotes SET status = 'open', ended_by = NULL, ended_group = NULL
        WHERE quote_id = ${uuid(of.cancelledId)}`,
    ],
    finds: ["promised_mismatch", "event_mismatch"],
  },
  {
    title: "an open quote deleted",
    table: "quotes",
    statements: (of) => [sql`DELETE FROM quotes WHERE quote_id = ${uuid(of.openQuoteId)}`],
    finds: ["promised_mismatch", "event_mismatch"],
  },
  {
    title: "a deposit's amount changed",
    table: "deposits",
    statements: (of) => [
      sql`UPDATE deposits SET amount = '999' WHERE user_id = ${uuid(of.requesterId)}`,
    ],
    finds: ["record_mismatch", "event_mismatch"],
  },
  {
    title: "a settled withdrawal failed",
    table: "withdrawals",
    statements: (of) => [
      sql`UPDATE withdrawals SET status = 'failed' WHERE withdrawal_id = ${uuid(of.withdrawalId)}`,
    ],
    finds: ["record_mismatch", "event_mismatch"],
  },
  {
    title: "a fee booked to a user",
    table: "transfers",
    statements: (of) => [
      sql`UPDATE transfers SET to_account = (
          SELECT account_id FROM accounts WHERE ${accountOf(of.requesterId, "usdc")})
        WHERE ref = ${uuid(of.matchId)} AND reason = ${reasonCode("fee")}
          AND from_account <> (
            SELECT account_id FROM accounts WHERE ${accountOf(of.requesterId, "usdc")})`,
    ],
    finds: ["record_mismatch", "running_balance_broken"],
  },
  {
    title: "events deleted from the middle",
    table: "event_runs",
    statements: (of) => [
      sql`DELETE FROM event_runs WHERE ${runOf(of.requesterStream, "match.created")}`,
    ],
    finds: ["event_mismatch"],
  },
  {
    title: "one event of a commit group deleted",
    table: "event_runs",
    statements: (of) => [
      sql`UPDATE event_runs SET events = json_remove(events, ${placeOf("match.created")})
        WHERE ${runOf(of.requesterStream, "match.created")}`,
    ],
    finds: ["event_mismatch"],
  },
  {
    title: "the last event of a stream deleted",
    table: "event_runs",
    statements: (of) => [
      sql`DELETE FROM event_runs WHERE ${runOf(of.requesterStream, "withdrawal.settled")}`,
    ],
    finds: ["event_mismatch"],
  },
  {
    title: "an event's body falsified",
    table: "event_runs",
    statements: (of) => [
      sql`UPDATE event_runs
        SET events = json_set(events, ${placeOf("match.created")} || '[6]', '1')
        WHERE ${runOf(of.requesterStream, "match.created")}`,
    ],
    finds: ["event_mismatch"],
  },
  {
    title: "an event's id falsified",
    table: "event_runs",
    statements: (of) => [
      sql`UPDATE event_runs SET ids = CAST(randomblob(16) || substr(ids, 17) AS BLOB)
        WHERE ${runOf(of.requesterStream, "match.created")}`,
    ],
    finds: ["event_mismatch"],
  },
  {
    title: "an event made another",
    table: "event_runs",
    statements: (of) => [
      sql`UPDATE event_runs SET events = json_set(events, ${placeOf("match.created")} || '[1]', 1)
        WHERE ${runOf(of.requesterStream, "match.created")}`,
    ],
    finds: ["event_mismatch"],
  },
  {
    title: "events replaced by garbage",
    table: "event_runs",
    statements: (of) => [
      sql`UPDATE event_runs SET events = '{' WHERE ${runOf(of.requesterStream, "match.created")}`,
    ],
    finds: ["event_mismatch"],
  },
  {
    title: "events replaced by texts",
    table: "event_runs",
    statements: (of) => [
      sql`UPDATE event_runs SET events = '["x"]'
        WHERE ${runOf(of.requesterStream, "match.created")}`,
    ],
    finds: ["event_mismatch"],
  },
  {
    title: "a request matched without a match",
    table: "requests",
    statements: (of) => [
      sql`UPDATE requests SET status = 'matched' WHERE request_id = ${uuid(of.openRequestId)}`,
    ],
    finds: ["request_mismatch"],
  },
  {
    title: "the request of a match reopened",
    table: "requests",
    statements: (of) => [
      sql`UPDATE requests SET status = 'open', ended_by = NULL, ended_group = NULL,
          expires_at = expires_at + 86400000
        WHERE request_id = ${uuid(of.requestId)}`,
    ],
    finds: ["request_mismatch", "event_mismatch"],
  },
  {
    title: "a settled withdrawal's address changed",
    table: "withdrawals",
    statements: (of) => [
      sql`UPDATE withdrawals SET to_address = randomblob(20)
        WHERE withdrawal_id = ${uuid(of.withdrawalId)}`,
    ],
    finds: ["payment_mismatch", "event_mismatch"],
  },
  {
    title: "a deposit address given to another user",
    table: "deposit_addresses",
    statements: ({ address, makerId }) => [
      sql`UPDATE deposit_addresses SET user_id = ${uuid(makerId)}, nonce = 7
        WHERE address = ${blob(address)}`,
    ],
    finds: ["address_mismatch"],
  },
  {
    title: "a deposit address replaced by another",
    table: "deposit_addresses",
    statements: ({ address }) => [
      sql`UPDATE deposit_addresses SET address = randomblob(20) WHERE address = ${blob(address)}`,
    ],
    finds: ["address_mismatch"],
  },
  {
    title: "the salt of a deposit address changed",
    table: "deposit_addresses",
    statements: ({ address }) => [
      sql`UPDATE deposit_addresses SET salt = randomblob(32) WHERE address = ${blob(address)}`,
    ],
    finds: ["address_mismatch"],
  },
  {
    title: "a deposit credited to another user than that of its address",
    table: "deposits",
    statements: ({ depositId, makerId }) => [
      sql`UPDATE deposits SET user_id = ${uuid(makerId)} WHERE deposit_id = ${uuid(depositId)}`,
    ],
    finds: ["address_mismatch"],
  },
];

// A full scan reads all rows that the file has written. In npm test edits.test.ts has it.
const SCANS = FULL ? (["recent", "full"] as const) : (["recent"] as const);
describe.each(SCANS)("the %s scan", { timeout: 30_000 }, (scan) => {
  it.each(EDITS)("finds $title", async ({ table, statements, finds }) => {
    const of = await history();
    if (scan === "full") await reconcile(db, { macKeys: settings(), chains: [] });
    const found = await newDifferences(scan, () => edit(db, table, statements(of)));
    expect(found.map((one) => one.check)).toEqual(expect.arrayContaining([...finds]));
  });

  it("finds a deleted transfer whose balances were adjusted", async () => {
    const of = await history();
    if (scan === "full") await reconcile(db, { macKeys: settings(), chains: [] });
    const found = await newDifferences(scan, async () => {
      await edit(db, "accounts", withoutTransfer(of.withdrawalId));
      await edit(db, "transfers", [
        sql`DELETE FROM transfers WHERE transfer_id = (${transferOf(of.withdrawalId)})`,
      ]);
    });
    expect(found.map((one) => one.check)).toContain("record_mismatch");
  });

  // The guards let these pass: the transfer is valid and its record exists.
  it.each([
    { reason: "fee", also: [] },
    { reason: "deposit", also: [] },
    { reason: "reserve_rfq", also: ["pending_mismatch"] },
  ] as const)("finds a second $reason under an old record", async ({ reason, also }) => {
    const of = await history();
    await reconcile(db, { macKeys: settings(), chains: [] });
    const found = await newDifferences(scan, () =>
      all(
        db,
        sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
          SELECT t.from_account, t.to_account, 1, t.reason, t.ref,
            (SELECT min(value) FROM json_each('[1,2,3,4,5]') WHERE value NOT IN (
              SELECT o.step FROM transfers o WHERE o.ref = t.ref)), 0,
            (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1)
          FROM transfers t JOIN accounts f ON f.account_id = t.from_account
            JOIN accounts g ON g.account_id = t.to_account
          WHERE t.reason = ${reasonCode(reason)} AND (t.ref = ${uuid(of.matchId)}
            AND g.owner = ${FEES_OWNER} AND f.kind = 'available'
            OR g.owner = ${uuid(of.requesterId)} AND g.asset = 'usdc'
            OR t.ref = ${uuid(of.acceptedId)} AND t.reason = ${reasonCode("reserve_rfq")})
          LIMIT 1`,
      ),
    );
    const [unexpected, ...others] = found.toSorted((one) =>
      one.check === "record_mismatch" ? -1 : 1,
    );
    expect(unexpected).toMatchObject({
      check: "record_mismatch",
      detail: expect.stringContaining("is unexpected"),
    });
    expect(others.map(({ check }) => check)).toEqual(also);
  });
});

it("names an altered deposit address, the deposits to it and the next command", async () => {
  const { address, depositId, requesterId, makerId } = await history();
  const found = await newDifferences("full", () =>
    edit(db, "deposit_addresses", [
      sql`UPDATE deposit_addresses SET user_id = ${uuid(makerId)}, nonce = 7
        WHERE address = ${blob(address)}`,
    ]),
  );
  const { chain } = defaultChain(settings());
  const freeze = (userId: string) =>
    expect.stringMatching(
      new RegExp(`Next: npm run operator -- user freeze --user-id ${userId} --env test$`),
    );
  expect(found).toEqual(
    expect.arrayContaining([
      {
        check: "address_mismatch",
        account: `${makerId}/deposit-address/${chain}/${address.toLowerCase()}`,
        amount: "0",
        detail: freeze(makerId),
      },
      {
        check: "address_mismatch",
        account: `${requesterId}/deposit/${depositId}`,
        amount: "1",
        detail: freeze(requesterId),
      },
    ]),
  );
});

it("raises no difference for a history that nobody edited", async () => {
  await history();
  for (const scan of ["recent", "full"] as const)
    expect(await newDifferences(scan, async () => {})).toEqual([]);
});

it("says when each scan last finished, and starts the full one once a day", async () => {
  const read = async () => {
    const { recent_finished_at, full_finished_at } = await reconcile(db, {
      macKeys: settings(),
      chains: [],
    });
    return [Date.parse(recent_finished_at ?? ""), Date.parse(full_finished_at ?? "")] as const;
  };
  const [recent, full] = await read();
  const [recentAgain, fullAgain] = await read();
  expect(recentAgain).toBeGreaterThan(recent);
  expect(fullAgain).toBe(full);
  await all(
    db,
    sql`UPDATE ledger_checkpoints SET finished_at = finished_at - 86400000
      WHERE scan LIKE 'full_%'`,
  );
  expect((await read())[1]).toBeGreaterThan(full);
});

it("reports a book whose expiries do not happen until they do", async () => {
  const of = await history();
  const overdue = async () =>
    (await reconcile(db, { macKeys: settings(), chains: [] })).differences.filter(
      (one) => one.check === "expiry_overdue" && one.account.endsWith(of.book),
    );
  expect(await overdue()).toEqual([]);
  await edit(db, "quotes", [
    sql`UPDATE quotes SET expires_at = 1 WHERE quote_id = ${uuid(of.openQuoteId)}`,
  ]);
  expect(await overdue()).toMatchObject([{ account: `all/book/${of.book}`, amount: "1" }]);
  await edit(db, "quotes", [
    sql`UPDATE quotes SET expires_at = opened_at + 300000
      WHERE quote_id = ${uuid(of.openQuoteId)}`,
  ]);
  expect(await overdue()).toEqual([]);
});

/** The differences for which a scan raises an alert after an edit. Earlier ones stay open. */
async function newDifferences(
  scan: "recent" | "full",
  change: () => Promise<unknown>,
): Promise<Difference[]> {
  const [last] = await all<{ id: number }>(
    db,
    sql`SELECT coalesce(max(alert_id), 0) AS id FROM alerts`,
  );
  await change();
  await reconcile(db, {
    macKeys: settings(),
    addressOf: addressOf(settings()),
    chains: [],
    full: scan === "full",
  });
  const rows = await all<{ detail: string }>(
    db,
    sql`SELECT detail FROM alerts WHERE alert_id > ${last?.id ?? 0} AND kind = 'reconciliation'`,
  );
  return rows.map(({ detail }): Difference => JSON.parse(detail));
}
