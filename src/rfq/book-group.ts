/**
 * Builds one commit group of a book: it expires what is due, runs the operations in order, writes
 * their events and reads back what they did.
 */
import { commit, type Group, newGroup, type NotCommitted } from "../platform/commit.ts";
import { all, atom, join, jsonObject, type Sql, sql } from "../platform/sql.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { announceRfq } from "./announce.ts";
import { expireDue, expireOnly, type ExpiryScope, nextDue, type Records } from "./expire.ts";
import { type MatchRow, matchColumns, newRequestColumns, type RequestRow } from "./records.ts";
import {
  composeOperations,
  type GroupEffects,
  type Operation,
  type PlacedQuote,
  type RecordKind,
} from "./operation.ts";

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
  const made = new Set(operations.flatMap(({ makes }) => (makes === null ? [] : [makes])));
  const work = [
    ...expiryStatements(group, expiry, expiryScope(asset, operations)),
    ...composeOperations(group, operations),
    ...announceRfq(group, made),
  ];
  const report = reportStatements(group, asset, made);
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

/** What the group did, as rows of a kind and the JSON of their columns, then the events. */
function reportStatements(group: Group, asset: string, made: ReadonlySet<RecordKind>): Sql[] {
  const kinds = [
    ...RECORD_KINDS.filter((kind) => made.has(kind)).map((kind) => madeRows(group, kind)),
    sql`SELECT 'ended' AS kind, json_object('operation', hex(e.ended_by)) AS row FROM (
        SELECT ended_by FROM quotes WHERE ended_group = ${group.seq} UNION
        SELECT ended_by FROM requests WHERE ended_group = ${group.seq}) e`,
    sql`SELECT 'due' AS kind, json_object('due', d.due, 'at', d.at) AS row
      FROM (${nextDue(asset, group.at)}) d`,
  ];
  return [join(kinds, " UNION ALL "), eventsToPush(group)];
}

const RECORD_KINDS = ["request", "quote", "match"] as const;

function madeRows(group: Group, kind: RecordKind): Sql {
  switch (kind) {
    case "request": {
      const columns = newRequestColumns({ kind: "user", userId: atom("r.requester_id") });
      return sql`SELECT 'request' AS kind, ${jsonObject(columns)} AS row
        FROM requests r WHERE r.opened_group = ${group.seq}`;
    }
    case "quote":
      return sql`SELECT 'quote' AS kind, json_group_array(
          json_array(hex(q.quote_id), q.opened_at, q.expires_at)) AS row
        FROM quotes q WHERE q.opened_group = ${group.seq}`;
    case "match":
      return sql`SELECT 'match' AS kind, ${jsonObject(matchColumns(atom("m.requester_id")))} AS row
        FROM matches m WHERE m.matched_group = ${group.seq}`;
  }
}

type ReportRow = {
  readonly kind: RecordKind | "ended" | "due";
  readonly row: string;
};

function readReport(rows: readonly (readonly unknown[])[]): GroupDone {
  const report = Map.groupBy(typed<ReportRow>(rows[0]), ({ kind }) => kind);
  const of = <Row>(kind: ReportRow["kind"]) =>
    (report.get(kind) ?? []).map(({ row }) => parsed<Row>(row));
  const [due] = of<{ due: number | null; at: number }>("due");
  if (due === undefined) throw new Error("the group has no instant");
  return {
    committed: true,
    effects: {
      requests: new Map(of<RequestRow>("request").map((row) => [row.request_id, row])),
      quotes: new Map(of<readonly Placed[]>("quote").flat().map(placedQuote)),
      matches: new Map(of<MatchRow>("match").map((row) => [row.match_id, row])),
      endedBy: new Set(of<{ operation: string }>("ended").map(({ operation }) => operation)),
    },
    at: due.at,
    nextDue: due.due,
    events: typed<StreamEvent>(rows[1]),
  };
}

type Placed = readonly [quoteId: string, openedAt: number, expiresAt: number];

function placedQuote([id, openedAt, expiresAt]: Placed): [string, PlacedQuote] {
  return [id, { opened_at: openedAt, expires_at: expiresAt }];
}

/** Safe cast: `Row` mirrors the columns of the JSON above. */
function parsed<Row>(row: string): Row {
  return JSON.parse(row) as Row;
}

/** Safe cast: `Row` mirrors the column list of the SELECT above. */
function typed<Row>(rows: readonly unknown[] | undefined): readonly Row[] {
  return (rows ?? []) as readonly Row[];
}
