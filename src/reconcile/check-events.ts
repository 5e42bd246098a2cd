/** The checks of streams (`event_mismatch`): each change has exactly its events, without a gap. */
import { uuidTextOf } from "../audit/audit.ts";
import { firstRunOf, groupOfRun } from "../platform/announce.ts";
import { CUSTODY_FORMS } from "../custody/custody-events.ts";
import { codesOf, eventColumn, kindsOf } from "../platform/event-forms.ts";
import { venueOf } from "../platform/venues.ts";
import { RFQ_FORMS } from "../rfq/rfq-event-forms.ts";
import {
  all,
  atom,
  type Expr,
  expr,
  join,
  jsonArray,
  literal,
  raw,
  scalar,
  type Sql,
  sql,
} from "../platform/sql.ts";
import { checkEach, type Checks, type Chunk } from "./check-alone.ts";
import type { Difference } from "./difference.ts";
import { MAX_PER_CHUNK, placedWithin, type ScanScope, within } from "./check-journal.ts";
import { MATCHES_LEFT_BEFORE, RECORDS_LEFT_BEFORE } from "../ledger/released.ts";

const KINDS = kindsOf(...RFQ_FORMS, ...CUSTODY_FORMS);

/** Checks the events that the commit groups of a chunk wrote. */
export async function checkEvents(db: D1Database, chunk: Chunk): Promise<Difference[]> {
  const kept = await withGroups(db, chunk);
  if (kept === undefined) return [];
  const kinds = Object.entries(CHANGES).map(([kind, changes]): [string, Checks[string]] => [
    `events of ${kind}`,
    async (part) => (await all<EventRow>(db, wrongEvents(kind, changes, part))).map(mismatch),
  ]);
  return checkEach(
    { db, rows: "group", chunk: kept },
    {
      "gaps of streams": async (part) => (await all<GapRow>(db, gapsBefore(part))).map(gap),
      ...Object.fromEntries(kinds),
    },
  );
}

/** Checks that the events of streams reach from the first to the last number. */
export async function checkStreams(
  db: D1Database,
  scan: ScanScope,
  chunk: Chunk,
): Promise<Difference[]> {
  return (await all<GapRow>(db, brokenStreams(scan, chunk))).map(gap);
}

/** The part whose commit groups are kept. Older events and records may have been deleted. */
async function withGroups(db: D1Database, chunk: Chunk): Promise<Chunk | undefined> {
  const first = expr`SELECT min(seq) FROM commit_groups WHERE ${within("seq", chunk)}`;
  const oldest = await scalar<number | null>(db, first);
  return oldest === null ? undefined : { after: oldest - 1, upTo: chunk.upTo };
}

type GapRow = { readonly stream: string; readonly detail: string };

function gap({ stream, detail }: GapRow): Difference {
  return { check: "event_mismatch", account: stream, amount: "0", detail };
}

/** The runs that the groups of a chunk wrote. */
function runsOf(table: string, { after, upTo }: Chunk): Sql {
  const runId = raw(`${table}.run_id`);
  return sql`${runId} >= ${firstRunOf(literal(after + 1))}
    AND ${runId} < ${firstRunOf(literal(upTo + 1))}`;
}

/** Runs of the chunk whose predecessor is missing. */
function gapsBefore(chunk: Chunk): Sql {
  return sql`SELECT s.name AS stream, 'event ' || (r.first_seq - 1) || ' is missing' AS detail
    FROM event_runs r JOIN streams s ON s.stream_id = r.stream_id
    WHERE ${runsOf("r", chunk)} AND r.first_seq > s.first_seq
      AND NOT EXISTS (SELECT 1 FROM event_runs p
        WHERE p.stream_id = r.stream_id AND p.last_seq = r.first_seq - 1)
    LIMIT ${MAX_PER_CHUNK}`;
}

/** Counting reads every event, so only the full scan counts. A restore may leave older events. */
function brokenStreams(scan: ScanScope, chunk: Chunk): Sql {
  const kept = sql`FROM event_runs r WHERE r.stream_id = s.stream_id AND r.last_seq >= s.first_seq`;
  const count =
    scan === "full"
      ? sql`(SELECT coalesce(sum(json_array_length(r.events)), 0) ${kept})`
      : sql`s.last_seq - s.first_seq + 1`;
  return sql`SELECT name AS stream, 'has events ' || coalesce(lowest, 'none') || ' to '
      || coalesce(highest, 'none') || ', ' || n || ' in all; expected ' || first_seq || ' to '
      || last_seq AS detail
    FROM (SELECT s.name, s.first_seq, s.last_seq, ${count} AS n,
        (SELECT r.first_seq ${kept} ORDER BY r.last_seq LIMIT 1) AS lowest,
        (SELECT max(r.last_seq) ${kept}) AS highest
      FROM streams s WHERE ${within("s.stream_id", chunk)})
    WHERE n <> last_seq - first_seq + 1 OR coalesce(lowest, first_seq) <> first_seq
      OR coalesce(highest, first_seq - 1) <> last_seq
    LIMIT ${MAX_PER_CHUNK}`;
}

type EventRow = {
  readonly stream: string;
  readonly type: string;
  readonly id: string;
  readonly facts: string | null;
  readonly surplus: number;
};

function mismatch({ stream, type, id, facts, surplus }: EventRow): Difference {
  const problem = surplus < 0 ? "missing" : "unexpected";
  return {
    check: "event_mismatch",
    account: stream,
    amount: "0",
    detail: `${type} of ${id.toLowerCase()} with ${facts ?? "an unreadable body"} is ${problem}`,
  };
}

/** The events that one change of a record calls for. SQL fragments without parameters. */
type Change = {
  readonly from: string;
  readonly group: string;
  /** Condition on the rows of a chunk, if no index finds them by `group`. */
  readonly of?: (chunk: Chunk) => Sql;
  readonly when?: string;
  readonly id: string;
  readonly streams: readonly string[];
  /** Of each stream, in the same order, or of all. */
  readonly types: readonly string[];
  readonly facts: Partial<Record<(typeof FACTS)[number], string>>;
};

/** The terms that events repeat. */
const FACTS = [
  "asset",
  "amount",
  "side",
  "price",
  "usdc_amount",
  "fee",
  "life_ms",
  "disclosed",
  "reason",
  "chain",
  "address",
  "to_address",
  "transaction_hash",
] as const;

const accountOf = (column: string) => `'account:' || ${uuidTextOf(column).text}`;

const booksOf = (table: string) => [
  `'book:' || ${table}.asset`,
  `'venue:' || ${venueOf(`${table}.asset`).text}`,
];

const REQUEST = {
  from: "requests r",
  id: "r.request_id",
  streams: [...booksOf("r"), accountOf("r.requester_id")],
};
const QUOTE = {
  from: "quotes q JOIN requests r ON r.request_id = q.request_id",
  id: "q.quote_id",
  streams: [accountOf("q.maker_id"), accountOf("r.requester_id")],
};
const MATCH = {
  from: "matches m",
  group: "m.matched_group",
  id: "m.match_id",
  facts: {
    asset: "m.asset",
    amount: "CAST(m.amount AS TEXT)",
    side: "m.side",
    price: "m.price",
    usdc_amount: "CAST(m.usdc_amount AS TEXT)",
  },
};
const REDEMPTION: Change = {
  from: "redemptions r",
  group: "r.made_group",
  when: "r.kind <> 'split'",
  id: "r.redemption_id",
  streams: [accountOf("r.user_id")],
  types: ["'token.redeemed'"],
  facts: {
    asset: "r.asset",
    amount: "CAST(r.amount AS TEXT)",
    usdc_amount: "CAST(r.usdc_amount AS TEXT)",
  },
};
const DEPOSIT = {
  from: "deposits d",
  id: "d.deposit_id",
  streams: [accountOf("d.user_id")],
  facts: {
    asset: "d.asset",
    amount: "d.amount",
    chain: "d.chain",
    address: "hex(d.address)",
    transaction_hash: "hex(d.transaction_hash)",
  },
};

/** Every kind of event and the changes that call for it. At most five terms of one UNION. */
const CHANGES: Readonly<Record<string, readonly Change[]>> = {
  request: [
    {
      ...REQUEST,
      group: "r.opened_group",
      types: ["'request.opened'"],
      facts: {
        asset: "r.asset",
        amount: "r.amount",
        side: "r.side",
        usdc_amount: "CAST(r.usdc_amount AS TEXT)",
        life_ms: "r.expires_at - r.opened_at",
        disclosed: "r.disclosed",
      },
    },
    {
      ...REQUEST,
      group: "r.ended_group",
      types: ["'request.closed'"],
      facts: { reason: "r.status" },
    },
  ],
  quote: [
    {
      ...QUOTE,
      group: "q.opened_group",
      of: placedWithin,
      types: ["'quote.opened'", "'quote.received'"],
      facts: {
        asset: "q.asset",
        amount: "q.amount",
        side: "q.side",
        price: "q.price",
        usdc_amount: "CAST(q.usdc_amount AS TEXT)",
        // The maker's stream is the first.
        fee: "CAST(iif(a.value = 0, q.maker_fee, q.taker_fee) AS TEXT)",
        life_ms: "q.expires_at - q.opened_at",
      },
    },
    {
      ...QUOTE,
      group: "q.ended_group",
      types: ["'quote.closed'"],
      // Only the maker, whose stream is the first, learns why the service cancelled it.
      facts: { reason: "iif(a.value = 0, q.close_reason, q.status)" },
    },
  ],
  match: [
    {
      ...MATCH,
      streams: [accountOf("m.requester_id"), accountOf("m.maker_id")],
      types: ["'match.created'"],
      facts: {
        ...MATCH.facts,
        fee: "CAST(iif(a.value = 0, m.taker_fee, m.maker_fee) AS TEXT)",
      },
    },
  ],
  trade: [{ ...MATCH, streams: booksOf("m"), types: ["'trade.printed'"] }],
  token: [REDEMPTION],
  deposit: [
    { ...DEPOSIT, group: "d.ended_group", types: ["'deposit.' || d.status"] },
    // A deposit that is detected and ended by one group is announced only by its end.
    {
      ...DEPOSIT,
      group: "d.detected_group",
      when: "d.ended_group IS NOT d.detected_group",
      types: ["'deposit.detected'"],
    },
  ],
  withdrawal: [
    {
      from: "withdrawals w",
      group: "w.changed_group",
      id: "w.withdrawal_id",
      streams: [accountOf("w.user_id")],
      types: ["'withdrawal.' || w.status"],
      facts: {
        asset: "w.asset",
        amount: "CAST(w.amount AS TEXT)",
        chain: "w.chain",
        to_address: "hex(w.to_address)",
        transaction_hash: "nullif(hex(w.transaction_hash), '')",
      },
    },
  ],
};

/** Kinds of events that are not named after their record. */
const RECORDS_OF: Readonly<Record<string, string>> = { trade: "match", token: "redemption" };

/**
 * Events of one kind: those that records call for against those that the chunk's groups wrote. A
 * deposit or withdrawal keeps only its last group, so its earlier events are not compared.
 */
function wrongEvents(kind: string, changes: readonly Change[], chunk: Chunk): Sql {
  const earlier = {
    request: notReleased("requests r WHERE r.request_id", RECORDS_LEFT_BEFORE),
    quote: notReleased("quotes q WHERE q.quote_id", RECORDS_LEFT_BEFORE),
    match: notReleased("matches m WHERE m.match_id", MATCHES_LEFT_BEFORE),
    trade: notReleased("matches m WHERE m.match_id", MATCHES_LEFT_BEFORE),
    token: raw("AND EXISTS (SELECT 1 FROM redemptions r WHERE r.redemption_id = unhex(id))"),
    deposit: raw(`AND EXISTS (SELECT 1 FROM deposits d WHERE d.deposit_id = unhex(id)
      AND grp IN (d.detected_group, d.ended_group))`),
    withdrawal: raw(`AND EXISTS (SELECT 1 FROM withdrawals w WHERE w.withdrawal_id = unhex(id)
      AND w.changed_group = grp)`),
  }[kind];
  const codes = codesOf(KINDS, `${kind}.`);
  const id = eventColumn(KINDS, `${RECORDS_OF[kind] ?? kind}_id`, codes);
  const facts = FACTS.map((fact) => eventColumn(KINDS, fact, codes));
  return sql`WITH written AS MATERIALIZED (
      SELECT s.name AS stream, e.type, ${groupOfRun(atom("e.run_id"))} AS grp,
        nullif(${id}, '') AS id, ${jsonArray(facts)} AS facts
      FROM stream_events e JOIN streams s ON s.stream_id = e.stream_id
      WHERE ${runsOf("e", chunk)} AND e.code IN (${raw(codes.join(", "))})),
    counted AS (
      ${join(
        changes.map((change) => expectedEvents(change, chunk)),
        " UNION ALL ",
      )}
      UNION ALL
      SELECT stream, type, grp, id, facts, 1 FROM written WHERE 1 ${earlier ?? raw("")})
    SELECT stream, type, coalesce(id, 'an unknown record') AS id, facts, sum(n) AS surplus
    FROM counted GROUP BY stream, type, grp, id, facts HAVING sum(n) <> 0
    LIMIT ${MAX_PER_CHUNK}`;
}

/** An event outlives its record. Ids are UUID v7, so they show that a record may have been deleted. */
function notReleased(record: string, leftBefore: Expr): Sql {
  return sql`AND (EXISTS (SELECT 1 FROM ${raw(record)} = unhex(id))
    OR id >= printf('%012X', ${leftBefore}) OR id IS NULL)`;
}

function expectedEvents(change: Change, chunk: Chunk): Sql {
  const { from, group, id, streams, types, facts, when = "1", of } = change;
  const each = (values: readonly string[]) =>
    values.length === 1
      ? (values[0] ?? "NULL")
      : `CASE a.value ${values.map((value, n) => `WHEN ${n} THEN ${value}`).join(" ")} END`;
  const audiences = JSON.stringify(streams.map((_, n) => n));
  const terms = FACTS.map((fact) => facts[fact] ?? "NULL").join(", ");
  return sql`SELECT ${raw(each(streams))} AS stream, ${raw(each(types))} AS type,
      ${raw(group)} AS grp, hex(${raw(id)}) AS id, json_array(${raw(terms)}) AS facts, -1 AS n
    FROM ${raw(from)} CROSS JOIN json_each(${audiences}) a
    WHERE ${of?.(chunk) ?? within(group, chunk)} AND ${raw(when)}`;
}
