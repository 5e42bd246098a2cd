/** Builds a commit group: expires what is due, runs operations, writes events, reads the result. */
import { commit, type Group, newGroup, type NotCommitted } from "../platform/commit.ts";
import {
  all,
  atom,
  type Expr,
  join,
  jsonObject,
  jsonText,
  type Sql,
  sql,
} from "../platform/sql.ts";
import { eventsToPush, type StreamEvent } from "../streams/event-log.ts";
import { announceRfq } from "./announce-rfq.ts";
import { type Due, expireDue, type ExpiryScope, nextDue } from "./expire.ts";
import { type MatchRow, matchColumns, newRequestColumns, type RequestRow } from "./rfq-records.ts";
import { type LimitRow, type AcceptLimits, acceptLimitsOf, ofMade } from "./standing-accept.ts";
import {
  composeOperations,
  type GroupEffects,
  type Made,
  madeBy,
  type BookOperation,
  placedBy,
  type MadeKind,
} from "./book-operation.ts";

export type GroupDone = {
  readonly committed: true;
  readonly effects: GroupEffects;
  readonly events: readonly StreamEvent[];
  /** The group's instant in Unix milliseconds. */
  readonly at: number;
  /** Unix milliseconds of the next expiry: of requests only, if the group named the due quotes. */
  readonly nextDue: number | null;
  /** What is known now of the standing accepts of the requests that the operations concern. */
  readonly limits: AcceptLimits;
};

/** What a group ends first: what is due (the quotes by id if the book knows them), or nothing. */
type Expiry = { readonly due: readonly string[] | null } | "none";

export async function commitOperations(
  db: D1Database,
  asset: string,
  operations: readonly BookOperation[],
  expiry: Expiry = { due: null },
): Promise<GroupDone | NotCommitted> {
  const group = newGroup();
  const made = madeBy(operations);
  const scope = expiryScope(asset, operations);
  const work = [
    ...(expiry === "none" ? [] : expireDue(group, { ...scope, quoteIds: expiry.due })),
    ...composeOperations(group, operations),
    ...announceRfq(group, made),
  ];
  // Without named quotes the next instant is that of any quote, too.
  const due = expiry !== "none" && expiry.due !== null ? "requests" : "all";
  const report = reportOf(group, { asset, due, made, limits: acceptLimitsOf(operations) });
  const outcome = await commit(db, group, [...work, report]);
  if (!outcome.committed) return outcome;
  // When D1's response was lost, the stamped rows still say what happened, so the report is read
  // again. Safe cast: it selects the columns of ReportRow.
  const rows = outcome.rows?.at(-1) ?? (await all(db, report));
  return readReport(rows as readonly ReportRow[]);
}

/** What a book ends with these operations. */
export function expiryScope(
  asset: string,
  operations: readonly BookOperation[],
): Omit<ExpiryScope, "quoteIds"> {
  return { asset, userIds: [...new Set(operations.map((operation) => operation.userId))] };
}

/** What the group did, as rows of a kind and their JSON. One statement, because each takes time. */
function reportOf(
  group: Group,
  { asset, due, made, limits }: { asset: string; due: Due; made: Made; limits: Expr },
): Sql {
  const kinds = [
    ...RECORD_KINDS.filter(
      (kind) => made[kind] !== undefined || (kind === "match" && made.standing !== undefined),
    ).map((kind) => madeRows(group, made, kind)),
    sql`SELECT 'group' AS kind, json_object('due', d.due, 'at', d.at,
        'limits', json(${limits}), 'ended', json((
        SELECT json_group_array(hex(e.ended_by)) FROM (
          SELECT ended_by FROM quotes WHERE ended_group = ${group.seq} UNION
          SELECT ended_by FROM requests WHERE ended_group = ${group.seq}) e))) AS row
      FROM (${nextDue(asset, group.at, due)}) d`,
    sql`SELECT 'event' AS kind, json_object('stream', e.stream, 'seq', e.seq, 'at', e.at,
        'ids', e.ids, 'body', ${jsonText(atom("e.body"))}) AS row
      FROM (${eventsToPush(group)}) e`,
  ];
  return join(kinds, " UNION ALL ");
}

const RECORD_KINDS = ["request", "quote", "match", "standing"] as const;

function madeRows(group: Group, made: Made, kind: MadeKind): Sql {
  switch (kind) {
    case "request": {
      const columns = newRequestColumns({ kind: "user", userId: atom("r.requester_id") });
      return sql`SELECT 'request' AS kind, ${jsonObject(columns)} AS row
        FROM requests r WHERE r.opened_group = ${group.seq}`;
    }
    case "quote":
      return sql`SELECT 'quote' AS kind, json_group_array(
          json_array(hex(q.quote_id), q.opened_at, q.expires_at, q.complement)) AS row
        FROM quotes q WHERE ${placedBy(group, made)}`;
    case "match":
      return sql`SELECT 'match' AS kind, ${jsonObject(matchColumns(atom("m.requester_id")))} AS row
        FROM matches m WHERE m.matched_group = ${group.seq}`;
    case "standing":
      return sql`SELECT 'standing' AS kind, json_quote(hex(a.changed_by)) AS row
        FROM ${ofMade(made)} AND a.changed_group = ${group.seq}`;
  }
}

type ReportRow = { readonly kind: MadeKind | "group" | "event"; readonly row: string };
type Placed = readonly [string, number, number, string | null];
type GroupRow = {
  readonly due: number | null;
  readonly at: number;
  readonly ended: readonly string[];
  readonly limits: readonly LimitRow[];
};

function readReport(rows: readonly ReportRow[]): GroupDone {
  const report = Map.groupBy(rows, ({ kind }) => kind);
  // Safe cast: `Row` mirrors the columns of the JSON above.
  const of = <Row>(kind: ReportRow["kind"]) =>
    (report.get(kind) ?? []).map(({ row }) => JSON.parse(row) as Row);
  const [group] = of<GroupRow>("group");
  if (group === undefined) throw new Error("the group has no instant");
  const opened = of<RequestRow>("request");
  return {
    committed: true,
    effects: {
      requests: new Map(opened.map((row) => [row.request_id, row])),
      quotes: new Map(
        of<readonly Placed[]>("quote")
          .flat()
          .map(([id, opened_at, expires_at, complement]) => [
            id,
            { opened_at, expires_at, complement },
          ]),
      ),
      matches: new Map(of<MatchRow>("match").map((row) => [row.match_id, row])),
      endedBy: new Set(group.ended),
      changedBy: new Set(of<string>("standing")),
    },
    limits: new Map([
      ...opened.map((row) => [row.request_id, null] as const),
      ...group.limits.map(
        ([id, side, price]) => [id, price === null ? null : { side, price }] as const,
      ),
    ]),
    at: group.at,
    nextDue: group.due,
    // The rows of a UNION have no order. A push needs that of each stream.
    events: of<StreamEvent>("event").toSorted((one, other) => one.seq - other.seq),
  };
}
