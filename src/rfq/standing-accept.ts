/**
 * Standing accepts: the price at which a requester accepts a quote as soon as it is placed. The
 * commit group that places quotes on the request accepts the best one that is as good, after all
 * other commands of the group. The guard asks the same of the requester as a call would, by the
 * credential that set the price. If it refuses, the quote stays open, and the requester learns why.
 */
import {
  ACTOR_FIELDS,
  actorFacts,
  type ActorFacts,
  actorRow,
  rowMayWrite,
} from "../auth/may-write.ts";
import type { Actor } from "../platform/actor.ts";
import { boundColumns, columnsOf } from "../platform/command-rows.ts";
import { type Group, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { storedEvent } from "../platform/event-forms.ts";
import { guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import {
  all,
  and,
  atom,
  type Expr,
  expr,
  join,
  raw,
  readUuid,
  type Sql,
  sql,
  uuid,
  uuids,
} from "../platform/sql.ts";
import { now } from "../platform/time.ts";
import { publicId } from "../platform/uuid.ts";
import { balancesHold, canPay, TRADED_SIDE, venueNotPaused } from "./accept-preconditions.ts";
import { acceptStatements } from "./accept-quote.ts";
import { hexId, type Made, type BookOperation } from "./book-operation.ts";
import {
  type AcceptLimit,
  type OpenRequest,
  reject,
  type Result,
  type SetAcceptPrice,
} from "./command.ts";
import { bestQuote, limitOf } from "./price-limit.ts";
import { actorMayWrite, inTime, marketOpen, requestMatched, sideMismatch } from "./rejections.ts";
import { ACCEPT_REFUSED } from "./rfq-event-forms.ts";
import type { RequestSide } from "../assets/asset-fields.ts";
import type { RequestStatus } from "./statuses.ts";
import { accountAllows, keyAllows, sessionAllowed } from "./trade-limits.ts";

/** Requests of a book with a standing accept, by their hexadecimal ids, and who made them. */
export type Standing = ReadonlyMap<string, string>;

const COLUMNS = raw(`request_id, requester_id, asset, side, price, api_key_id, session_epoch,
  session_expires_at, changed_by, changed_group`);

/** With a new request, if this group has opened it. */
export function saveWithRequest(group: Group, command: OpenRequest): Sql[] {
  const { actor, requestId, accept } = command;
  if (accept === undefined) return [];
  return [
    sql`INSERT INTO standing_accepts (${COLUMNS})
      SELECT r.request_id, r.requester_id, r.asset, ${saved(actor, accept, requestId, group)}
      FROM requests r WHERE r.request_id = ${uuid(requestId)} AND r.opened_group = ${group.seq}`,
  ];
}

function saved(
  actor: Actor,
  { side, price }: { readonly side: AcceptLimit["side"] | Expr; readonly price: number | null },
  changedBy: string,
  group: Group,
): Sql {
  const by = boundColumns(ACTOR_FIELDS, actorRow(actor));
  return sql`${side}, ${price}, ${join(Object.values<Expr>(by), ", ")}, ${uuid(changedBy)},
    ${group.seq}`;
}

/** Sets, changes or removes the price while the request is open. */
export function setAcceptPrice(command: SetAcceptPrice, settings: Config): BookOperation {
  const { actor, operationId, requestId, price } = command;
  const { side } = limitOf({ ...command, price: price ?? 0 });
  const checks = (at: Expr) => preconditions(command, side, settings, at);
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: { kind: "standing", id: requestId },
    names: [requestId],
    mayFulfil: requestId,
    binding: true,
    statements: (group) => [
      sql`INSERT INTO standing_accepts (${COLUMNS})
        SELECT r.request_id, r.requester_id, r.asset,
          ${saved(actor, { side: expr`coalesce(${side}, 'Bid')`, price }, operationId, group)}
        FROM requests r WHERE r.request_id = ${uuid(requestId)} AND ${guardOf(checks(group.at))}
        ON CONFLICT (request_id) DO UPDATE SET side = excluded.side, price = excluded.price,
          api_key_id = excluded.api_key_id, session_epoch = excluded.session_epoch,
          session_expires_at = excluded.session_expires_at, changed_by = excluded.changed_by,
          changed_group = excluded.changed_group, refused_for = NULL, refused_quote = NULL,
          refused_group = NULL`,
    ],
    result: (effects) => {
      if (!effects.changedBy.has(hexId(operationId))) return undefined;
      const matches = [...effects.matches.values()];
      const match = matches.find(({ request_id: id }) => id === hexId(requestId)) ?? null;
      const left = match === null ? price : null;
      return {
        ok: true,
        kind: "accept_price",
        row: { requestId, price: left, match },
        replayed: false,
      };
    },
    rejection: () =>
      questionOf({
        preconditions: checks(NOW),
        facts: {
          instant: NOW,
          status: atom("r.status"),
          side: atom("r.side"),
          match_id: expr`SELECT hex(m.match_id) FROM matches m WHERE m.request_id = r.request_id`,
        },
        apart: actorFacts(actor),
        from: sql`FROM requests r WHERE r.request_id = ${uuid(requestId)}`,
        missing: () => reject("request_unknown", `There is no request ${requestId}.`),
      }),
  };
}

type Facts = {
  readonly instant: number;
  readonly status: RequestStatus;
  readonly side: RequestSide;
  readonly match_id: string | null;
};

/** Over `requests r`. */
function preconditions(
  command: SetAcceptPrice,
  side: Expr,
  settings: Config,
  at: Expr,
): readonly Precondition<Facts & ActorFacts, Result>[] {
  const { actor, requestId, price } = command;
  return [
    actorMayWrite(actor, at),
    {
      expr: expr`r.requester_id = ${uuid(actor.userId)}`,
      reject: () => reject("not_request_owner", "The request belongs to someone else."),
    },
    inTime(command, at, settings),
    {
      expr: expr`r.status NOT IN ('matched', 'cancelled')`,
      reject: ({ status, match_id }) =>
        status === "matched"
          ? requestMatched(requestId, match_id)
          : reject("request_not_open", `Request ${requestId} is ${status}.`),
    },
    {
      expr: expr`r.status = 'open' AND r.expires_at > ${at}`,
      reject: () => reject("request_expired", `Request ${requestId} has expired.`),
    },
    {
      expr: expr`${price} IS NULL OR ifnull(r.side IN (${side}, 'TwoWay') AND ${side} IS NOT NULL, 0)`,
      reject: (facts) => sideMismatch(facts.side, command),
    },
  ];
}

/**
 * The operations that accept for the requests on which a group places quotes, or sets a price.
 * `standing` is what the book knows: the guards decide.
 */
export function standingAccepts(
  operations: readonly BookOperation[],
  standing: Standing,
  settings: Accepting,
): BookOperation[] {
  const requests = new Map<string, string>();
  for (const { mayFulfil: id, makes, userId } of operations) {
    if (id === undefined) continue;
    const requester = makes?.kind === "standing" ? userId : standing.get(hexId(id));
    if (requester !== undefined) requests.set(id, requester);
  }
  return [...requests].map(([id, requester]) => standingAccept(id, requester, settings));
}

type Accepting = Pick<Config, "RFQ_COMMAND_MAX_WAIT_MS"> & { readonly cancelsOthers: boolean };

function standingAccept(requestId: string, userId: string, settings: Accepting): BookOperation {
  const [receivedAt, matchId] = [now(), publicId()];
  const of = (column: string) =>
    expr`SELECT ${raw(column)} FROM standing_accepts WHERE request_id = ${uuid(requestId)}`;
  const limit = { request: uuid(requestId), side: of("side"), price: of("price") };
  const may = guardOf([
    { expr: expr`r.status = 'open' AND r.expires_at > g.at` },
    inTime({ receivedAt }, GROUP_AT, settings),
    marketOpen(atom("r.asset"), GROUP_AT),
    { expr: venueNotPaused },
  ]);
  const quote = (group: Group) => bestQuote(limit, group.at);
  const held = and(GRANTS.map(([, grant]) => grant));
  const ofRow = sql`SELECT 1 FROM standing_accepts a WHERE a.request_id = r.request_id`;
  return {
    userId,
    receivedAt,
    makes: { kind: "standing", id: requestId },
    names: [requestId],
    statements: (group) => [
      ...acceptStatements(group, {
        matchId,
        quote: quote(group),
        guard: expr`${may} AND EXISTS (${ofRow} AND ${held})`,
        key: of("api_key_id"),
        cancelsOthers: settings.cancelsOthers,
      }),
      sql`UPDATE standing_accepts SET refused_for = w.reason, refused_quote = w.quote_id,
          refused_group = ${group.seq}
        FROM (SELECT s.quote_id, CASE ${join(REASONS, " ")} END AS reason
          FROM commit_groups g CROSS JOIN quote_sides s
            CROSS JOIN requests r ON r.request_id = s.request_id
            CROSS JOIN standing_accepts a ON a.request_id = r.request_id
          WHERE g.group_id = ${uuid(group.id)} AND s.quote_id = ${quote(group)} AND ${may}) w
        WHERE request_id = ${uuid(requestId)} AND refused_for IS NULL AND w.reason IS NOT NULL`,
    ],
    // Nobody waits for it: events tell the requester, and the maker's result the maker.
    result: () => undefined,
    rejection: () => {
      throw new Error("nobody asks why a standing accept did nothing");
    },
  };
}

const REQUESTER = atom("r.requester_id");
const TRADER = { user: REQUESTER, key: atom("a.api_key_id") };
const GROUP_AT = atom("g.at");

/** What the requester needs, over `g`, `s`, `r` and `standing_accepts a`, and its name if not. */
const GRANTS: readonly (readonly [reason: string, grant: Expr])[] = [
  ["credential_ended", rowMayWrite(REQUESTER, columnsOf(ACTOR_FIELDS, "a"), GROUP_AT)],
  ["credential_ended", sessionAllowed(TRADER, GROUP_AT)],
  ["key_limit", keyAllows(TRADER, TRADED_SIDE, GROUP_AT)],
  ["account_limit", accountAllows(TRADER, TRADED_SIDE.exposure, GROUP_AT)],
  ["insufficient_funds", canPay(REQUESTER)],
  ["balance_limit", balancesHold],
];
const REASONS = GRANTS.map(([reason, grant]) => sql`WHEN NOT ${grant} THEN ${raw(`'${reason}'`)}`);

/** A JSON array for the report of a group: the standing accepts of the book. */
export function standingOf(asset: string): Expr {
  return expr`SELECT json_group_array(json_array(hex(request_id), hex(requester_id)))
    FROM standing_accepts WHERE asset = ${asset} AND price IS NOT NULL`;
}

export function readStandingRows(rows: readonly (readonly [string, string])[]): Standing {
  return new Map(rows.map(([id, user]) => [id, readUuid(user)]));
}

export async function readStanding(db: D1Database, asset: string): Promise<Standing> {
  const [row] = await all<{ rows: string }>(db, sql`SELECT ${standingOf(asset)} AS rows`);
  // Safe cast: the statement builds the array.
  return readStandingRows(JSON.parse(row?.rows ?? "[]") as [string, string][]);
}

/** Rows of the standing accepts that a group may have changed or refused. */
export function ofMade({ standing: ids = [] }: Made): Sql {
  return sql`standing_accepts a WHERE a.request_id IN (${uuids(ids)})`;
}

/** `accept.refused` to the requester alone. */
export function acceptsRefused(group: Group, made: Made): Sql {
  const event = storedEvent(ACCEPT_REFUSED, "accept.refused", {
    request_id: atom("hex(a.request_id)"),
    quote_id: atom("hex(a.refused_quote)"),
    price: expr`SELECT price FROM quotes WHERE quote_id = a.refused_quote`,
    reason: atom("a.refused_for"),
  });
  return sql`SELECT a.requester_id AS stream, ${event}, a.request_id AS ord
    FROM ${ofMade(made)} AND a.refused_group = ${group.seq}`;
}
