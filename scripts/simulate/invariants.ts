/**
 * What must hold at a quiet point, besides the project's own reconciliation. The statements here
 * share nothing with the code that they check. Names in brackets are those of docs/invariants.md.
 */
import { MATCH_CREATED } from "../../src/rfq/rfq-event-forms.ts";
import { windowsOf } from "../../src/platform/windows.ts";
import type { Database } from "./database.ts";
import type { Command } from "../../src/rfq/command.ts";
import type { People, Sent } from "./people.ts";
import { settings } from "./settings.ts";
import type { Subscribers } from "./subscribers.ts";
import { Violation } from "./violation.ts";

const idOf = (uuid: string) => uuid.replaceAll("-", "").toUpperCase();

export function checkCommands(database: Database, people: People): void {
  const { sent } = people;
  for (const one of sent) checkOutcome(database, one);
  checkRepeats(sent);
}

/** What a command writes: the table, the column with its id, that of its group, and its owner. */
const EFFECTS = {
  open_request: ["requests", "request_id", "opened_group", "requester_id"],
  place_quote: ["quotes", "quote_id", "opened_group", "maker_id"],
  accept: ["matches", "match_id", "matched_group", "requester_id"],
  accept_price: ["matches", "match_id", "matched_group", "requester_id"],
  set_accept_price: ["standing_accepts", "changed_by", "changed_group", "requester_id"],
  cancel_quote: ["quotes", "ended_by", "ended_group", "maker_id"],
  cancel_request: ["requests", "ended_by", "ended_group", "requester_id"],
} as const;

function idOfCommand(command: Command): string {
  switch (command.op) {
    case "open_request":
      return idOf(command.requestId);
    case "place_quote":
      return idOf(command.quoteId);
    case "accept":
    case "accept_price":
      return idOf(command.matchId);
    default:
      return idOf(command.operationId);
  }
}

/** The rows that the command wrote, each with its commit group and its owner. */
function effectsOf(database: Database, command: Command): ReturnType<Database["rows"]> {
  const [table, column, group, owner] = EFFECTS[command.op];
  return database.rows(
    `SELECT ${group} AS seq, hex(${owner}) AS owner FROM every_${table} WHERE ${column} = unhex(?)`,
    idOfCommand(command),
  );
}

/** A reported outcome is the truth: `ok` means one effect, anything but `unknown` means none. */
function checkOutcome(database: Database, sent: Sent): void {
  const { command, result } = sent;
  const rows = effectsOf(database, command);
  const effects = rows.length;
  const about = `step ${sent.step}, ${JSON.stringify(command)}: ${JSON.stringify(result)}`;
  // A quote is cancelled by its maker, a request by its requester, who alone accepts.
  const foreign = rows.find(({ owner }) => owner !== idOf(command.actor.userId));
  if (foreign !== undefined)
    throw new Violation("own_data_only [A5]", `${String(foreign["owner"])}'s: ${about}`);
  if (effects > 1) throw new Violation("one_effect", `${effects} effects of ${about}`);
  if (result === undefined) {
    if (sent.killed !== true) throw new Violation("answered", `no answer to ${about}`);
    return;
  }
  if (result.ok) {
    if (command.op === "accept_price" && result.kind === "match") {
      const { side, price } = result.row;
      if (!isAsGood(side, price, command.price)) throw new Violation("price_kept", about);
    }
    // A later command of the kind, or the end of the request, leaves nothing of it.
    const kept = command.op !== "set_accept_price";
    if (effects === 0 && kept && !result.replayed) throw new Violation("ok_has_effect", about);
    if (effects === 1 && result.replayed) throw new Violation("replay_has_no_effect", about);
    return;
  }
  if (result.problem.code === "internal") throw new Violation("no_internal_error", about);
  const unknown = result.problem.extensions?.["outcome"] === "unknown";
  if (!unknown && effects > 0) throw new Violation("none_means_no_effect [R4]", about);
}

/** What the statement NEVER cannot know: every match was asked for, at no worse price. */
export function checkMatches(database: Database, people: People, after: number): void {
  const limits = Map.groupBy(people.limits, ({ requestId }) => idOf(requestId));
  const accepts = new Set([...people.accepts].map(idOf));
  const matches = database.rows(
    `SELECT hex(match_id) AS id, hex(request_id) AS request, hex(requester_id) AS requester, side,
      price FROM every_matches WHERE matched_group > ?`,
    after,
  );
  for (const { id, request, requester, side, price } of matches) {
    const asked = (limits.get(String(request)) ?? []).some(
      (limit) =>
        idOf(limit.userId) === requester &&
        (limit.side === null || limit.side === side) &&
        isAsGood(side, Number(price), limit.price),
    );
    if (!asked && !accepts.has(String(id)))
      throw new Violation("match_was_asked_for", `${String(id)} at ${String(price)}`);
  }
}

function isAsGood(side: unknown, price: number, limit: number): boolean {
  return side === "Bid" ? price <= limit : price >= limit;
}

/** How long a record stays after it ended, and a key at least. */
const { ended: KEY_LIFE_MS } = windowsOf({
  HOT_WINDOWS_DIVISOR: Number(settings()["HOT_WINDOWS_DIVISOR"]),
});

/** [R1, R2] Commands with one key have one record within the life of the key. */
function checkRepeats(sent: readonly Sent[]): void {
  const records = new Map<string, { readonly id: string; readonly at: number }>();
  for (const { command, result } of sent) {
    if (!("idempotency" in command) || command.idempotency === undefined) continue;
    if (result?.ok !== true || (result.kind !== "request" && result.kind !== "quote")) continue;
    const at = result.row.opened_at;
    const id = result.kind === "request" ? result.row.request_id : result.row.quote_id;
    const key = `${command.actor.userId} ${command.op} ${command.idempotency.key}`;
    const known = records.get(key) ?? { id, at };
    if (known.id !== id && Math.abs(at - known.at) <= KEY_LIFE_MS)
      throw new Violation("repeat_same_result [R1]", `${key}: ${known.id} and ${id}`);
    records.set(key, { id, at });
  }
}

/** [T2] A quote is firm within its life, counted from the instant it was received. */
export function checkQuoteLife(database: Database, sent: readonly Sent[]): void {
  for (const { command, sentAt, step } of sent) {
    if (command.op !== "place_quote") continue;
    const [quote] = database.rows(
      "SELECT opened_at, expires_at FROM every_quotes WHERE quote_id = unhex(?)",
      idOf(command.quoteId),
    );
    if (quote === undefined) continue;
    const firmUntil = Number(quote["expires_at"]);
    if (firmUntil > sentAt + command.expiresInSecs * 1_000)
      throw new Violation(
        "quote_life [T2]",
        `step ${step}: a quote of ${command.expiresInSecs} s received at ${sentAt} is firm until +${
          firmUntil - sentAt
        } ms`,
      );
  }
}

/** [T1] No command is sent to the database later than the maximum wait after it was received. */
export function checkWaits(database: Database, sent: readonly Sent[], maxWaitMs: number): void {
  for (const { command, sentAt, step } of sent) {
    const [row] = effectsOf(database, command);
    const batchAt = database.batchSentAt.get(Number(row?.["seq"]));
    if (batchAt !== undefined && batchAt > sentAt + maxWaitMs)
      throw new Violation(
        "deadline_kept [T1]",
        `step ${step}: ${command.op} waited ${batchAt - sentAt} ms and was then committed`,
      );
  }
}

/** Statements that return the rows which must not exist. */
const NEVER: Readonly<Record<string, string>> = {
  "one_match [Q1]": `SELECT request_id FROM every_matches GROUP BY request_id HAVING count(*) > 1`,
  "no_late_accept [Q2]": `SELECT hex(m.match_id) AS id, m.at, q.expires_at
    FROM every_matches m JOIN every_quotes q ON q.quote_id = m.quote_id
    WHERE m.matched_group > :after AND m.at >= q.expires_at`,
  match_is_of_its_request: `SELECT hex(m.match_id) AS id
    FROM every_matches m JOIN every_requests r ON r.request_id = m.request_id
    WHERE m.matched_group > :after AND (m.requester_id <> r.requester_id OR r.status <> 'matched'
      OR r.ended_by <> m.match_id)`,
  "closed_is_empty [Q6]": `SELECT hex(q.quote_id) AS id
    FROM every_quotes q JOIN every_requests r ON r.request_id = q.request_id
    WHERE q.status = 'open' AND r.status <> 'open'`,
  outbid_by_a_better_quote: `SELECT hex(q.quote_id) AS id FROM every_quotes q
      LEFT JOIN every_quotes b ON b.quote_id = q.ended_by
    WHERE q.ended_group > :after AND q.cancel_reason = 'outbid' AND NOT ifnull(b.opened_group = q.ended_group
      AND b.request_id = q.request_id AND b.side = q.side
      AND iif(q.side = 'Ask', b.price > q.price, b.price < q.price), 0)`,
  revoked_key_has_no_quote: `SELECT hex(q.quote_id) AS id, k.revoked_at, g.at
    FROM every_quotes q JOIN api_keys k ON k.api_key_id = q.credential
      LEFT JOIN commit_groups g ON g.seq = q.ended_group
    WHERE k.revoked_at IS NOT NULL
      AND (q.status = 'open' OR q.ended_group > :after AND g.at > k.revoked_at)`,
  "pending_explained [J6]": `SELECT a.owner, a.asset, a.balance, coalesce(c.total, 0) AS causes
    FROM accounts a LEFT JOIN (
      SELECT user_id AS owner, asset, sum(amount) AS total FROM withdrawals
      WHERE status IN ('awaiting_approval', 'queued', 'submitted')
      GROUP BY user_id, asset) c ON c.owner = a.owner AND c.asset = a.asset
    WHERE a.kind = 'pending' AND a.balance <> coalesce(c.total, 0)`,
  "promises_explained [J6]": `SELECT a.owner, a.asset, a.kind, a.promised, c.total
    FROM accounts a LEFT JOIN (
      SELECT maker_id AS owner, reserve_asset AS asset, sum(reserve) AS total
      FROM quotes WHERE status = 'open' GROUP BY maker_id, reserve_asset) c
      ON c.owner = a.owner AND c.asset = a.asset AND a.kind = 'available'
    WHERE a.promised <> coalesce(c.total, 0) OR (a.promised > a.balance AND a.kind = 'available')`,
  "conserved [J1]": `SELECT asset, sum(balance) FROM accounts GROUP BY asset
    HAVING sum(balance) <> 0`,
  "seq_gapless [Q7]": `SELECT s.name, s.last_seq, count(e.seq) AS kept
    FROM streams s LEFT JOIN stream_events e
      ON e.stream_id = s.stream_id AND e.seq >= s.first_seq
    GROUP BY s.stream_id HAVING count(e.seq) <> s.last_seq - s.first_seq + 1
      OR coalesce(max(e.seq), s.last_seq) <> s.last_seq`,
  "announced_iff_committed [Q4]": `SELECT name, events, records FROM (
    SELECT 'match' AS name, (SELECT count(*) FROM every_matches WHERE matched_group > :after) * 2
        AS records,
      (SELECT count(*) FROM every_event_runs r CROSS JOIN json_each(r.events) e
        WHERE r.run_id >= (:after + 1) << 20 AND e.value ->> 1 = ${MATCH_CREATED.codes["match.created"]}) AS events)
    WHERE events <> records`,
};

/** Records of commit groups up to `after` were checked before. */
export function checkRecords(database: Database, after: number): void {
  for (const [property, statement] of Object.entries(NEVER)) {
    const rows = database.rows(statement.replaceAll(":after", String(after)));
    if (rows.length > 0) throw new Violation(property, JSON.stringify(rows.slice(0, 3)));
  }
}

/** Nothing that is due stays open once cron has run. */
export function checkDue(database: Database, now: number): void {
  for (const table of ["quotes", "requests"]) {
    const due = database.count(
      `SELECT count(*) FROM ${table} WHERE status = 'open' AND expires_at < ?`,
      now - 70_000,
    );
    if (due > 0) throw new Violation("due_is_ended", `${due} ${table} are due and open`);
  }
}

/** An event that is so old has been pushed. In a calm each call arrives at once. */
const PUSHED_MS = 2_000;

/** [Q4] Every committed event has reached every open socket. */
export function checkSockets(database: Database, subscribers: Subscribers, now: number): void {
  for (const { open, stream, last, person } of subscribers.all) {
    if (!open) continue;
    const lastSeq = database.count("SELECT last_seq FROM streams WHERE name = ?", stream);
    const pushedSeq = database.count(
      `SELECT max(r.last_seq) FROM streams s JOIN event_runs r ON r.stream_id = s.stream_id
        WHERE s.name = ? AND r.at <= ?`,
      stream,
      now - PUSHED_MS,
    );
    if (last !== undefined && (last > lastSeq || last < pushedSeq))
      throw new Violation(
        "socket_behind [Q4]",
        `${stream} of ${person.name} stands at ${last}, the stream at ${lastSeq}`,
      );
  }
}
