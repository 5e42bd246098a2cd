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
import { isMacOf, type MacKeys, macOf } from "../audit/event-mac.ts";
import { raiseAlert } from "../platform/alert.ts";
import { boundColumns, columnsOf, type CommandRow } from "../platform/command-rows.ts";
import { type Group, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import type { InstantFact } from "../platform/deadline.ts";
import { storedEvent } from "../platform/event-forms.ts";
import { guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import {
  all,
  and,
  atom,
  type Expr,
  expr,
  FALSE,
  join,
  jsonText,
  raw,
  readUuid,
  type Sql,
  sql,
  TRUE,
  uuid,
  uuids,
} from "../platform/sql.ts";
import { now } from "../platform/time.ts";
import { publicId } from "../platform/uuid.ts";
import {
  ACCEPT_FIELDS,
  type AcceptField,
  STANDING_TERMS,
  standingUnchanged,
  wantedQuote,
} from "./accept-command.ts";
import { balancesHold, canPay, TRADED_SIDE, venueNotPaused } from "./accept-preconditions.ts";
import { ACCEPTED_QUOTES } from "./accept-quote.ts";
import { hexId, type Made, type BookOperation } from "./book-operation.ts";
import {
  type AcceptLimit,
  type OpenRequest,
  reject,
  type Result,
  type SetAcceptPrice,
} from "./command.ts";
import { isWithin } from "./price-limit.ts";
import {
  actorMayWrite,
  commitBefore,
  inTime,
  marketOpen,
  requestMatched,
  requestOpen,
  rowInTime,
  sideMismatch,
} from "./rejections.ts";
import { ACCEPT_REFUSED } from "./rfq-event-forms.ts";
import type { Side } from "../assets/asset-fields.ts";
import { type RequestTerms, termsOf } from "./request-terms.ts";
import { accountAllows, keyAllows, sessionAllowed } from "./trade-limits.ts";

/**
 * What a book knows of the standing accepts of requests, by hexadecimal ids. Null: there is none.
 * What it does not know it reads before the group.
 */
export type AcceptLimits = Map<string, AcceptLimit | null>;

/**
 * Who can write SQL can edit or insert a row, which spends the requester's money. So nothing is
 * accepted for a row whose terms do not have a MAC by a key of AUDIT_KEYS.
 */
const PURPOSE = "standing accept v1";

type Saved = Pick<SetAcceptPrice, "actor" | "requestId" | "price"> & {
  readonly side: Side;
  readonly request: Omit<RequestTerms, "side">;
};

/** STANDING_TERMS as text. */
function termsText({ actor, requestId, request, side, price }: Saved): string {
  const by = actorRow(actor);
  return JSON.stringify([
    hexId(requestId),
    hexId(actor.userId),
    request.asset,
    request.amount?.toString() ?? null,
    request.usdcAmount?.toString() ?? null,
    side,
    price,
    hexId(String(by.api_key_id ?? "")),
    by.session_epoch,
    by.session_expires_at,
  ]);
}

/** Writes the row, without an earlier refusal, where `when` holds, over `requests r`. */
function save(group: Group, saved: Saved, changedBy: string, keys: MacKeys, when: Sql): Sql {
  const { actor, requestId, side, price } = saved;
  const by = boundColumns(ACTOR_FIELDS, actorRow(actor));
  return sql`REPLACE INTO standing_accepts (request_id, requester_id, side, price, api_key_id,
      session_epoch, session_expires_at, mac, changed_by, changed_group)
    SELECT r.request_id, r.requester_id, ${side}, ${price},
      ${join(Object.values<Expr>(by), ", ")}, ${macOf(keys, PURPOSE, [termsText(saved)])},
      ${uuid(changedBy)}, ${group.seq}
    FROM requests r WHERE r.request_id = ${uuid(requestId)} AND ${when}`;
}

/** With a new request, if this group has opened it. */
export function saveWithRequest(group: Group, command: OpenRequest, keys: MacKeys): Sql[] {
  const { actor, requestId, accept } = command;
  if (accept === undefined) return [];
  const saved = { actor, requestId, request: termsOf(command), ...accept };
  return [save(group, saved, requestId, keys, sql`r.opened_group = ${group.seq}`)];
}

/** Sets, changes or removes the price while the request is open. */
export function setAcceptPrice(
  command: SetAcceptPrice,
  request: RequestTerms,
  settings: Config,
): BookOperation {
  const { actor, operationId, requestId, price } = command;
  const side = command.side ?? (request.side === "TwoWay" ? null : request.side);
  const fits = price === null || (side !== null && [side, "TwoWay"].includes(request.side));
  const saved = { actor, requestId, request, side: side ?? "Bid", price } as const;
  const checks = (at: Expr) => preconditions(command, { request, fits, settings }, at);
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: { kind: "standing", id: requestId },
    names: [requestId],
    ...(price === null ? {} : { mayFulfil: { requestId, terms: termsText(saved) } }),
    binding: true,
    statements: (group) => [save(group, saved, operationId, settings, guardOf(checks(group.at)))],
    result: (effects) => {
      if (!effects.changedBy.has(hexId(operationId))) return undefined;
      const matches = [...effects.matches.values()];
      const match = matches.find(({ request_id: id }) => id === hexId(requestId)) ?? null;
      const row = { requestId, price: match === null ? price : null, match };
      return { ok: true, kind: "accept_price", row, replayed: false };
    },
    rejection: () =>
      questionOf({
        preconditions: checks(NOW),
        facts: {
          instant: NOW,
          match_id: expr`SELECT hex(m.match_id) FROM matches m WHERE m.request_id = r.request_id`,
        },
        apart: actorFacts(actor),
        from: sql`FROM requests r WHERE r.request_id = ${uuid(requestId)}`,
        missing: () => reject("request_unknown", `There is no request ${requestId}.`),
      }),
  };
}

type Facts = InstantFact & { readonly match_id: string | null };

/** Over `requests r`. */
function preconditions(
  command: SetAcceptPrice,
  of: { readonly request: RequestTerms; readonly fits: boolean; readonly settings: Config },
  at: Expr,
): readonly Precondition<Facts & ActorFacts, Result>[] {
  const { actor, requestId } = command;
  return [
    actorMayWrite(actor, at),
    {
      expr: expr`r.requester_id = ${uuid(actor.userId)}`,
      reject: () => reject("not_request_owner", "The request belongs to someone else."),
    },
    inTime(command, at, of.settings),
    {
      expr: expr`r.status <> 'matched'`,
      reject: ({ match_id }) => requestMatched(requestId, match_id),
    },
    ...requestOpen.map(({ expr: open, reject: closed }) => ({
      expr: open(at),
      reject: () => closed(requestId),
    })),
    {
      expr: of.fits ? TRUE : FALSE,
      reject: () => sideMismatch(of.request.side, command),
    },
  ];
}

/** Whether the operation sets a price, or is a quote that may be as good as one. */
export function mayBeFulfilled({ mayFulfil: by }: BookOperation, limits: AcceptLimits): boolean {
  if (by === undefined || "terms" in by) return by !== undefined;
  const limit = limits.get(hexId(by.requestId));
  return limit === undefined || (limit !== null && isWithin(by, limit));
}

/**
 * The operations that accept for the requests on which a group places quotes that are as good, or
 * sets a price. What it reads is added to `limits`. The guards decide.
 */
export async function standingAccepts(
  db: D1Database,
  operations: readonly BookOperation[],
  limits: AcceptLimits,
  settings: Accepting,
): Promise<BookOperation[]> {
  const trusted = new Map<string, string[]>();
  const trust = (id: string, terms: string) => trusted.set(id, [...(trusted.get(id) ?? []), terms]);
  const quoted = () => {
    const fitting = operations.filter((operation) => mayBeFulfilled(operation, limits));
    return new Set(
      fitting.flatMap(({ mayFulfil: by }) =>
        by !== undefined && "price" in by ? hexId(by.requestId) : [],
      ),
    );
  };
  for (const { mayFulfil: by } of operations)
    if (by !== undefined && "terms" in by) trust(by.requestId, by.terms);
  const unread = quoted();
  const rows = new Map((await readTerms(db, [...unread])).map((row) => [row.id, row]));
  for (const id of unread) limits.set(id, rows.get(id) ?? null);
  for (const hex of quoted()) {
    const { terms = "", mac = null } = rows.get(hex) ?? {};
    const id = readUuid(hex);
    if (isMacOf(settings.macKeys, PURPOSE, { values: [terms], mac })) trust(id, terms);
    else await raiseAlert(db, "key_row_altered", id, "wrong MAC of a standing accept");
  }
  return [...trusted].flatMap(([id, texts]) =>
    texts.map((terms) => standingAccept(id, terms, settings)),
  );
}

type Accepting = Pick<Config, "RFQ_COMMAND_MAX_WAIT_MS"> & {
  readonly cancelsOthers: boolean;
  readonly macKeys: MacKeys;
};

type StoredTerms = AcceptLimit &
  Readonly<Record<"id" | "terms", string>> & { readonly mac: string | null };

async function readTerms(db: D1Database, requestIds: readonly string[]): Promise<StoredTerms[]> {
  if (requestIds.length === 0) return [];
  return all<StoredTerms>(
    db,
    sql`SELECT hex(a.request_id) AS id, a.side, a.price, ${jsonText(STANDING_TERMS)} AS terms, a.mac
      FROM standing_accepts a JOIN requests r ON r.request_id = a.request_id
      WHERE a.request_id IN (${uuids(requestIds)}) AND a.price IS NOT NULL`,
  );
}

/** Accepts for the row, if it has these terms at the commit. */
function standingAccept(requestId: string, terms: string, settings: Accepting): BookOperation {
  const receivedAt = now();
  // Safe cast: the text is that of STANDING_TERMS.
  const [, requester, , , , side, price, key, epoch, expiresAt] = JSON.parse(
    terms,
  ) as StandingTerms;
  const row = {
    match_id: publicId(),
    requester_id: requester,
    api_key_id: key === "" ? null : key,
    session_epoch: epoch,
    session_expires_at: expiresAt,
    quote_id: null,
    request_id: requestId,
    side,
    price,
    received_at: receivedAt,
    commit_before: commitBefore(receivedAt, settings),
    not_after: null,
    cancels_others: settings.cancelsOthers ? 1 : 0,
    standing: terms,
  };
  return {
    userId: readUuid(requester),
    receivedAt,
    makes: { kind: "standing", id: requestId },
    names: [requestId],
    set: { kind: STANDING_ACCEPTS, row },
    statements: (group) => STANDING_ACCEPTS.statements(group, [row]),
    // Nobody waits for it: events tell the requester, and the maker's result the maker.
    result: () => undefined,
    rejection: () => {
      throw new Error("nobody asks why a standing accept did nothing");
    },
  };
}

type StandingTerms = readonly [
  request: string,
  requester: string,
  asset: string,
  amount: string | null,
  usdcAmount: string | null,
  side: Side,
  price: number,
  key: string,
  epoch: number | null,
  expiresAt: number | null,
];

/** A set of its own, because it comes after all other commands of the group. */
const STANDING_ACCEPTS = {
  statements: (group: Group, rows: readonly CommandRow<AcceptField>[]): readonly Sql[] => [
    ...ACCEPTED_QUOTES.statements(group, rows),
    ...rows.map((row) => noteRefusal(group, row)),
  ],
};

/** Writes why the quote that is as good was not accepted, unless one was. */
function noteRefusal(group: Group, row: CommandRow<AcceptField>): Sql {
  const c = { ...boundColumns(ACCEPT_FIELDS, row), at: GROUP_AT };
  // An open quote is on an open request.
  const asked = and([
    standingUnchanged(c),
    rowInTime(c),
    marketOpen(atom("r.asset"), GROUP_AT).expr,
    venueNotPaused,
  ]);
  return sql`UPDATE standing_accepts SET refused_for = w.reason, refused_quote = w.quote_id,
      refused_group = ${group.seq}
    FROM (SELECT s.quote_id, CASE ${join(REASONS, " ")} END AS reason
      FROM commit_groups g CROSS JOIN quote_sides s
        CROSS JOIN requests r ON r.request_id = s.request_id
        CROSS JOIN standing_accepts a ON a.request_id = r.request_id
      WHERE g.group_id = ${uuid(group.id)} AND s.quote_id = ${wantedQuote(c)} AND ${asked}) w
    WHERE request_id = ${c.request_id} AND refused_for IS NULL`;
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

export type LimitRow = readonly [requestId: string, side: Side, price: number | null];

/** JSON of the standing accepts of the requests that the operations open, quote or change. */
export function acceptLimitsOf(operations: readonly BookOperation[]): Expr {
  const ids = operations.flatMap(({ makes, mayFulfil }) => mayFulfil?.requestId ?? makes?.id ?? []);
  return expr`SELECT json_group_array(json_array(hex(request_id), side, price))
    FROM standing_accepts WHERE request_id IN (${uuids([...new Set(ids)])})`;
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
