/** Each list is read in order from the index made for it, so a page costs what it shows. */
import { expect, it } from "vitest";
import type { OwnRecords } from "../../src/archive/ask-history.ts";
import { listApiKeys } from "../../src/auth/api-key.ts";
import { listAuditEvents } from "../../src/audit/audit.ts";
import { admitLogin } from "../../src/auth/login-throttle.ts";
import { withdrawnLastDay } from "../../src/auth/exposure.ts";
import { checkRegistrations } from "../../src/auth/login.ts";
import { endedStreams } from "../../src/streams/close-ended.ts";
import { isDepositAddress } from "../../src/custody/check-destination.ts";
import { listDepositAddresses } from "../../src/custody/deposit-address.ts";
import { listDeposits, listWithdrawals } from "../../src/custody/payment-records.ts";
import { liveMembers, readOpenTransactions } from "../../src/custody/payer/open-transactions.ts";
import { UNREACHABLE } from "../../src/ledger/old-rows.ts";
import { config } from "../../src/platform/config.ts";
import { newGroup } from "../../src/platform/commit.ts";
import { all, atom, sql, uuid } from "../../src/platform/sql.ts";
import { getMatch, getQuote, getRequest } from "../../src/rfq/get-records.ts";
import { listMatches } from "../../src/rfq/list-matches.ts";
import { listOwnQuotes, listQuotesOnRequest } from "../../src/rfq/list-quotes.ts";
import { countEnded } from "../../src/rfq/close-quotes.ts";
import { ownOpenRecords } from "../../src/rfq/snapshot-rfq.ts";
import { QUOTE_STATUSES, REQUEST_STATUSES } from "../../src/rfq/statuses.ts";
import { listPositions } from "../../src/rfq/list-positions.ts";
import { listTrades } from "../../src/rfq/list-trades.ts";
import { listOpenRequests, listOwnRequests } from "../../src/rfq/list-requests.ts";
import { eventsToPush } from "../../src/streams/event-log.ts";
import { eventsBetween } from "../../src/streams/replay.ts";
import { RecordingDatabase } from "../support/node/recording-database.ts";
import { migratedDatabase } from "../../scripts/migrations/files.ts";
import { testSettings } from "../support/settings.ts";

const database = migratedDatabase();
const settings = config(testSettings());
const user = "0196f0c2-0000-7000-8000-000000000001";
const record = "0196f0c2-0000-7000-8000-000000000002";
const address = "0x52908400098527886E0F7030069857D2E4169EE7";
const first = { limit: 50 };
const next = {
  limit: 50,
  last_cursor: { text: "", position: { at: 1_764_551_353_797, id: record } },
};
const nextAudit = { limit: 50, last_cursor: { text: "", position: record } };

const login = { email: "ann@example.com", clientIp: "2001:db8:1:2::3" };

const book = { venue: "venue_one", assetId: "0x1" } as const;

type Read = (db: D1Database) => Promise<unknown>;

it.each<[name: string, read: Read, indexes: string[]]>([
  ["a user's API keys", (db) => listApiKeys(db, user, next), ["api_keys_user"]],
  [
    "a user's audit events",
    (db) => listAuditEvents(db, user, nextAudit),
    ["audit_events_user", "audit_events_audit_event_id_unique"],
  ],
  [
    "a user's open sockets",
    (db) => endedStreams(db, sql`SELECT ${uuid(user)}`),
    ["the primary key", "the primary key", "the primary key"],
  ],
  [
    "a user's deposit addresses",
    (db) => listDepositAddresses(db, user),
    ["deposit_addresses_nonce"],
  ],
  [
    "whether an address is ours",
    (db) => all(db, sql`SELECT ${isDepositAddress(settings, address)}`),
    ["the primary key"],
  ],
  ["a user's deposits", (db) => listDeposits(db, user, first), ["deposits_user"]],
  ["their next page", (db) => listDeposits(db, user, next), ["deposits_user"]],
  [
    "a user's deposits of one status",
    (db) => listDeposits(db, user, { ...next, status: "orphaned" }),
    ["deposits_user_status"],
  ],
  [
    "a user's deposits below the minimum",
    (db) => listDeposits(db, user, { ...next, status: "below_minimum" }),
    ["small_deposits_user", "deposit_addresses_nonce"],
  ],
  [
    "the sum of a user's withdrawals of the last day",
    (db) => all(db, sql`SELECT ${withdrawnLastDay(uuid(user), atom("1"))} AS sum`),
    ["withdrawals_user"],
  ],
  ["a user's withdrawals", (db) => listWithdrawals(db, user, next), ["withdrawals_user"]],
  [
    "a user's withdrawals of one status",
    (db) => listWithdrawals(db, user, { ...first, status: "failed" }),
    ["withdrawals_user_status"],
  ],
  [
    "the payer's open transactions",
    (db) => readOpenTransactions(db, "local"),
    ["chain_transactions_open", "the primary key"],
  ],
  [
    "a transaction's live members",
    (db) => liveMembers(db, record),
    ["the primary key", "the primary key"],
  ],
  [
    "a stream's events",
    // The stream is empty, so its events count as missing once they were read.
    (db) =>
      eventsBetween(db, "venue:venue_one", { after: 0, upTo: 5 })
        .next()
        .catch(() => {}),
    ["streams_name_unique", "event_runs_stream"],
  ],
  [
    "the events of a commit group",
    (db) => all(db, eventsToPush(newGroup())),
    [
      "the primary key",
      "commit_groups_group_id_unique",
      "commit_groups_group_id_unique",
      "the primary key",
      "the primary key",
      "the primary key",
    ],
  ],
  ["everybody's open requests", (db) => listOpenRequests(db, user, {}, next), ["requests_open_at"]],
  [
    "a book's open requests",
    (db) => listOpenRequests(db, user, { venue: "venue_one", assetId: "0x1" }, next),
    ["requests_open_asset"],
  ],
  [
    "a user's open requests",
    (db) => listOwnRequests(db, user, { status: "open" }, next),
    ["requests_user_status"],
  ],
  [
    "a user's open requests in a book",
    (db) => listOwnRequests(db, user, { status: "open", ...book }, next),
    ["requests_user_status"],
  ],
  [
    "all requests of a user",
    (db) => listOwnRequests(db, user, { status: "all" }, next),
    [...REQUEST_STATUSES.map(() => "requests_user_status"), "the primary key"],
  ],
  [
    "all requests of a user in a book",
    (db) => listOwnRequests(db, user, { status: "all", ...book }, next),
    [...REQUEST_STATUSES.map(() => "requests_user_status"), "the primary key"],
  ],
  [
    "a request by its id",
    (db) => getRequest(db, user, record).catch(() => {}),
    ["the primary key"],
  ],
  [
    "a quote by its id",
    (db) => getQuote(db, user, record).catch(() => {}),
    ["the primary key", "the primary key", "the primary key"],
  ],
  [
    "a match by its request",
    (db) => getMatch(records(db), user, { request_id: record }).catch(() => {}),
    ["matches_request_id_unique"],
  ],
  [
    "a match by its quote",
    (db) => getMatch(records(db), user, { quote_id: record }).catch(() => {}),
    ["matches_quote_id_unique"],
  ],
  ["a maker's quotes", (db) => listOwnQuotes(db, user, {}, next), ["quotes_maker"]],
  [
    "a maker's quotes of one status",
    (db) => listOwnQuotes(db, user, { status: "accepted" }, next),
    ["quotes_maker"],
  ],
  [
    "a maker's open quotes",
    (db) => listOwnQuotes(db, user, { status: "open" }, next),
    ["quotes_open_maker"],
  ],
  ...ownOpenRecords(user).map(({ name, statement }): [string, Read, string[]] => [
    `the ${name} of an account's snapshot`,
    (db) => all(db, statement),
    [name === "quotes" ? "quotes_open_maker" : "requests_user_status"],
  ]),
  [
    "a maker's quotes with a label",
    (db) => listOwnQuotes(db, user, { label: "l", status: "open", ...book }, next),
    ["quotes_label"],
  ],
  [
    "a user's requests with a label",
    (db) => listOwnRequests(db, user, { label: "l", status: "all" }, next),
    ["requests_label", "the primary key"],
  ],
  [
    "a user's open requests with a label",
    (db) => listOwnRequests(db, user, { label: "l", status: "open" }, next),
    ["requests_user_status"],
  ],
  [
    "how many quotes a group ended",
    (db) => countEnded(db, "quotes", [newGroup()]),
    ["quotes_ended_group", "commit_groups_group_id_unique"],
  ],
  [
    "a user's matches with a label",
    (db) => listMatches(records(db), user, { label: "l" }, next),
    ["matches_requester_label", "matches_maker_label", "the primary key"],
  ],
  [
    "a maker's quotes on a request",
    (db) => listOwnQuotes(db, user, { requestId: record, ...book }, next),
    ["quotes_maker"],
  ],
  [
    "the quotes on a request",
    // The request is not found, because the database is empty.
    (db) => listQuotesOnRequest(db, user, { requestId: record }, first).catch(() => {}),
    QUOTE_STATUSES.flatMap(() => ["the primary key", "quotes_request_status"]),
  ],
  [
    "the quotes on a request of one status",
    (db) =>
      listQuotesOnRequest(db, user, { requestId: record, status: "open" }, first).catch(() => {}),
    ["the primary key", "quotes_request_status"],
  ],
  [
    "positions of a venue",
    (db) => listPositions({ db, settings }, user, { venue: "venue_one" }, { limit: 50 }),
    ["accounts_owner", "the primary key"],
  ],
  ["the tape", (db) => listTrades(db, {}, next), ["matches_at"]],
  ["the tape of a period", (db) => listTrades(db, { from: 1, to: 2 }, next), ["matches_at"]],
  ["the tape of a venue", (db) => listTrades(db, { venue: "venue_one" }, next), ["matches_venue"]],
  [
    "the tape of a book",
    (db) => listTrades(db, { venue: "venue_one", assetId: "0x1" }, next),
    ["matches_asset"],
  ],
  [
    "a user's matches",
    (db) => listMatches(records(db), user, {}, next),
    ["matches_requester", "matches_maker", "the primary key"],
  ],
  [
    "a maker's matches in a book and a period",
    (db) => listMatches(records(db), user, { role: "maker", from: 1, to: 2, ...book }, next),
    ["matches_maker", "the primary key"],
  ],
])("reads %s from its index", async (_name, read, indexes) => {
  const recorder = new RecordingDatabase();
  await read(recorder.d1);
  const [statement] = [...recorder.batches.flat().slice(-1), ...recorder.reads];
  if (statement === undefined) throw new Error("nothing was read");
  const plan = database
    .prepare(`EXPLAIN QUERY PLAN ${statement.text}`)
    .all()
    .map(({ detail }) => String(detail));
  expect(indexesOf(plan)).toEqual(indexes);
});

it.each<[name: string, read: Read]>([
  [
    "a login's limits",
    (db) => admitLogin(db, { AUTH_LOGINS_PER_MINUTE: 10 }, login).catch(() => {}),
  ],
  ["a network's registrations", (db) => checkRegistrations(db, settings, login.clientIp)],
])("reads %s without scanning a table", async (_name, read) => {
  const recorder = new RecordingDatabase();
  await read(recorder.d1);
  const [statement] = recorder.reads;
  if (statement === undefined) throw new Error("nothing was read");
  const plan = database
    .prepare(`EXPLAIN QUERY PLAN ${statement.text}`)
    .all()
    .map(({ detail }) => String(detail));
  const searched = plan.filter((detail) => /^SEARCH \w+ USING/.test(detail));
  expect(searched.length).toBeGreaterThan(1);
  // The clock reads the last row of commit_groups. `asked` contains the callers.
  const scanned = plan.filter((detail) =>
    /^SCAN (?!CONSTANT|commit_groups|json_each|asked)/.test(detail),
  );
  expect(scanned.filter((detail) => !detail.startsWith("SCAN (subquery"))).toEqual([]);
});

/** Nothing has left the database, so no history is asked. */
function records(db: D1Database): OwnRecords {
  return { db, old: UNREACHABLE };
}

/** The index of every table that the statement itself reads, in the order of the plan. */
function indexesOf(plan: readonly string[]): string[] {
  const nested = plan.findIndex((detail) => detail.includes("CORRELATED"));
  return plan
    .slice(0, nested < 0 ? undefined : nested)
    .filter((detail) => /^(SEARCH|SCAN) \w+ USING/.test(detail))
    .map((detail) => /INDEX (\w+)/.exec(detail)?.[1] ?? detail)
    .map((index) => (/^sqlite_autoindex|PRIMARY KEY/.test(index) ? "the primary key" : index));
}
