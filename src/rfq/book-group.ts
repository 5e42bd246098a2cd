/**
 * Builds one commit group of a book: it expires what is due, runs the operations in order, writes
 * their events and reads back what they did.
 */
import { commit, type Group, newGroup, type NotCommitted } from "../platform/commit.ts";
import { all, type Sql, sql, select, atom } from "../platform/sql.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { announceRfq } from "./announce.ts";
import { expireDue, expireOnly, type ExpiryScope, nextDue, type Records } from "./expire.ts";
import {
  type MatchRow,
  matchColumns,
  newQuoteColumns,
  newRequestColumns,
  type QuoteRow,
  type RequestRow,
} from "./records.ts";
import { composeOperations, type GroupEffects, type Operation } from "./operation.ts";

export type GroupDone = {
  readonly committed: true;
  readonly effects: GroupEffects;
  readonly events: readonly StreamEvent[];
  /** The group's instant in Unix milliseconds. */
  readonly at: number;
  /** Unix milliseconds of the book's next expiry, or null. */
  readonly nextDue: number | null;
};

/** What a group ends before its operations: what is due, nothing, or only these records. */
export type Expiry = "due" | "none" | Records;

export async function commitOperations(
  db: D1Database,
  asset: string,
  operations: readonly Operation[],
  expiry: Expiry = "due",
): Promise<GroupDone | NotCommitted> {
  const group = newGroup();
  const work = [
    ...expiryStatements(group, expiry, expiryScope(asset, operations)),
    ...composeOperations(group, operations),
    ...announceRfq(group),
  ];
  const report = reportStatements(group, asset);
  const outcome = await commit(db, group, [...work, ...report]);
  if (!outcome.committed) return outcome;
  // When D1's response was lost, the stamped rows still say what happened, so the report is read
  // again.
  const rows =
    outcome.rows?.slice(work.length) ??
    (await Promise.all(report.map((statement) => all(db, statement))));
  return readReport(rows);
}

/** What a book ends with these operations. */
export function expiryScope(asset: string, operations: readonly Operation[]): ExpiryScope {
  return { asset, userIds: [...new Set(operations.map((operation) => operation.userId))] };
}

function expiryStatements(group: Group, expiry: Expiry, scope: ExpiryScope): Sql[] {
  if (expiry === "none") return [];
  return expiry === "due" ? expireDue(group, scope) : expireOnly(group, expiry);
}

function reportStatements(group: Group, asset: string): Sql[] {
  return [
    sql`SELECT ${select(newRequestColumns({ kind: "user", userId: atom("r.requester_id") }))}
      FROM requests r WHERE r.opened_group = ${group.seq}`,
    sql`SELECT ${select(newQuoteColumns("maker"))} FROM quotes q
      WHERE q.opened_group = ${group.seq}`,
    sql`SELECT ${select(matchColumns(atom("m.requester_id")))} FROM matches m
      WHERE m.matched_group = ${group.seq}`,
    sql`SELECT hex(ended_by) AS operation FROM quotes WHERE ended_group = ${group.seq} UNION
      SELECT hex(ended_by) FROM requests WHERE ended_group = ${group.seq}`,
    nextDue(asset, group.at),
    eventsToPush(group),
  ];
}

function readReport(rows: readonly (readonly unknown[])[]): GroupDone {
  const [requests, quotes, matches, ended, due, events] = rows;
  return {
    committed: true,
    effects: {
      requests: new Map(typed<RequestRow>(requests).map((row) => [row.request_id, row])),
      quotes: new Map(typed<QuoteRow>(quotes).map((row) => [row.quote_id, row])),
      matches: new Map(typed<MatchRow>(matches).map((row) => [row.match_id, row])),
      endedBy: new Set(typed<{ operation: string }>(ended).map((row) => row.operation)),
    },
    ...readDue(due),
    events: typed<StreamEvent>(events),
  };
}

function readDue(rows: readonly unknown[] | undefined): Pick<GroupDone, "at" | "nextDue"> {
  const [row] = typed<{ due: number | null; at: number }>(rows);
  if (row === undefined) throw new Error("the group has no instant");
  return { at: row.at, nextDue: row.due };
}

/** Safe cast: `Row` mirrors the column list of the SELECT above. */
function typed<Row>(rows: readonly unknown[] | undefined): readonly Row[] {
  return (rows ?? []) as readonly Row[];
}
