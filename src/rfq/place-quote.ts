/**
 * Places a firm quote. The maker's side is reserved in the same operation, so an accepted quote
 * always settles.
 *
 * All quotes of a group are placed by one statement. It inserts their commands into
 * `quote_commands`, whose trigger takes one command after the other: it checks PRECONDITIONS,
 * places the quote, reserves, and remembers the key. So each command sees what those before it did.
 * The trigger skips a command whose preconditions do not hold, and stores none.
 *
 * The trigger is migrations/0003_place_quote.sql. It is generated from this file, and a test
 * compares the two. To add a precondition:
 *
 * 1. Add it to PRECONDITIONS, at its place in the order of errors.
 * 2. If it needs a value of the command, add a field to QUOTE_FIELDS and `rowOf`, and a column to
 *    `quote_commands` (migrations/0001_schema.sql and tables.ts).
 * 3. Write the trigger again with
 *    `npm run test -- --project node test/rfq/place-quote.node.test.ts -u`.
 * 4. Add a mutant of the trigger to scripts/mutants/rfq.ts.
 *
 * What else a placed quote does belongs into `placed`.
 */
import { ownerHasAvailable, transfer } from "../ledger/post.ts";
import { type Group, NOW } from "../platform/commit.ts";
import { boundColumns, columnsOf, type CommandRow, selectRows } from "../platform/command-rows.ts";
import { type Config, venueConfig } from "../platform/config.ts";
import { deadlinePassed, type InstantFact } from "../platform/deadline.ts";
import { guardOf, questionOf } from "../platform/preconditions.ts";
import {
  atom,
  type Columns,
  type Expr,
  expr,
  literal,
  raw,
  type Sql,
  sql,
  TRUE,
  uuid,
} from "../platform/sql.ts";
import { MAX_CLOCK_LEAD_MS, toWireTime } from "../platform/time.ts";
import {
  ACTOR_FIELDS,
  actorFacts,
  type ActorFacts,
  actorRejectionOf,
  actorRow,
  rowCredential,
  rowMayWrite,
} from "../auth/may-write.ts";
import { readAssetKey } from "../assets/asset.ts";
import type { Side } from "../assets/fields.ts";
import { socketNotEnded } from "./armed-sockets.ts";
import { cancelAfterPassed, timerFacts, type TimerFacts, timerNotPassed } from "./cancel-timer.ts";
import { type PlaceQuote, reject, type Result } from "./command.ts";
import {
  type EarlierFacts,
  earlierFacts,
  hashIsUnused,
  KEY_FIELDS,
  keyRow,
  type KeyUse,
  recallResult,
  rememberRow,
} from "./idempotency.ts";
import { hexId, type Operation } from "./operation.ts";
import {
  protectionFacts,
  type ProtectionFacts,
  protectionNotTripped,
  protectionTripped,
} from "./protection-record.ts";
import {
  socketEnded,
  insufficientFunds,
  late,
  marketClosed,
  marketOpen,
  storageLeft,
  tookTooLong,
  venuePaused,
} from "./rejections.ts";
import {
  endReplaced,
  notReplaceable,
  replaceable,
  replacedCount,
  replacedFact,
  replacedReserve,
  usableText,
} from "./replaced-quote.ts";
import type { RequestTerms } from "./request-terms.ts";
import {
  accountAllows,
  accountLimit,
  keyAllows,
  keyLimit,
  limitFacts,
  type LimitFacts,
  sessionAllowed,
  sessionRejected,
} from "./trade-limits.ts";
import type { RequestStatus } from "./tables.ts";
import { quotedAmount, tradeTerms, type TradeTerms } from "./trade-terms.ts";

const ROUTE = "POST /rfq/quote";
/**
 * Bounds the work of the accept that rejects them all; a request with more quotes needs no further
 * one.
 */
export const MAX_OPEN_QUOTES_PER_REQUEST = 1_000;
/**
 * Far below the other limit: worthless quotes cost almost nothing, and one maker must not keep the
 * others out.
 */
export const MAX_OPEN_QUOTES_PER_MAKER = 50;

/** A command as a row of `quote_commands`. */
const QUOTE_FIELDS = {
  quote_id: "blob",
  request_id: "blob",
  maker_id: "blob",
  ...ACTOR_FIELDS,
  price: "integer",
  amount: "text",
  side: "text",
  usdc_amount: "amount",
  taker_fee: "amount",
  maker_fee: "amount",
  reserve_asset: "text",
  reserve: "amount",
  received_at: "integer",
  life_ms: "integer",
  commit_before: "integer",
  not_after: "integer",
  label: "text",
  replaces: "blob",
  max_open_quotes: "integer",
  socket_id: "blob",
  ...KEY_FIELDS,
} as const;
type Field = keyof typeof QUOTE_FIELDS;
/** `at` is the instant of the group. */
type CommandColumns = Columns<Field | "at">;

function rowOf(command: PlaceQuote, terms: QuoteTerms, settings: Config): CommandRow<Field> {
  const { actor, receivedAt } = command;
  return {
    quote_id: command.quoteId,
    request_id: command.requestId,
    maker_id: actor.userId,
    ...actorRow(actor),
    price: command.price,
    amount: terms.amount.toString(),
    side: terms.side,
    usdc_amount: terms.usdcAmount.toString(),
    taker_fee: terms.takerFee.toString(),
    maker_fee: terms.makerFee.toString(),
    reserve_asset: terms.reserveAsset,
    reserve: terms.reserve.toString(),
    received_at: receivedAt,
    life_ms: lifeMs(command),
    commit_before: receivedAt + settings.RFQ_COMMAND_MAX_WAIT_MS + MAX_CLOCK_LEAD_MS,
    not_after: command.notAfter ?? null,
    label: command.label,
    replaces: command.replaces,
    max_open_quotes: settings.RFQ_OPEN_QUOTES_PER_USER,
    socket_id: command.socketId ?? null,
    ...keyRow(keyUse(command)),
  };
}

export function placeQuote(
  command: PlaceQuote,
  request: RequestTerms,
  settings: Config,
): Operation {
  const { actor, quoteId, requestId } = command;
  const terms = quoteTerms(command, request, settings);
  const given = { command, request, terms, settings };
  const row = rowOf(command, terms, settings);
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: "quote",
    binding: true,
    names: command.replaces === null ? [requestId] : [requestId, command.replaces],
    set: { kind: PLACED_QUOTES, row },
    statements: (group) => PLACED_QUOTES.statements(group, [row]),
    result: (effects) => {
      const quote = effects.quotes.get(hexId(quoteId));
      return quote && { ok: true, kind: "quote", row: quote, replayed: false };
    },
    rejection: () => {
      const bound = { ...boundColumns(QUOTE_FIELDS, row), at: NOW };
      return questionOf({
        preconditions: PRECONDITIONS.map((precondition) => ({
          expr: precondition.expr(bound),
          reject: (facts: Facts) => precondition.reject(facts, given),
        })),
        facts: {
          instant: NOW,
          status: expr`iif(r.status = 'open' AND r.expires_at <= ${NOW}, 'expired', r.status)`,
          available: usableText(bound),
          replaced: replacedFact(bound),
          ...protectionFacts(actor.userId),
          ...timerFacts(actor),
          ...limitFacts(traderOf(bound), REQUEST_VENUE),
        },
        apart: { ...actorFacts(actor), ...earlierFacts(keyUse(command)) },
        from: sql`FROM requests r WHERE r.request_id = ${uuid(requestId)}`,
        missing: () => reject("request_unknown", `There is no request ${requestId}.`),
      });
    },
  };
}

const PLACED_QUOTES = {
  statements: (group: Group, rows: readonly CommandRow<Field>[]): readonly Sql[] => [
    sql`INSERT INTO quote_commands (${raw(Object.keys(QUOTE_FIELDS).join(", "))}, at, placed_group)
      SELECT c.*, g.at, g.seq
      FROM commit_groups g CROSS JOIN (${selectRows(QUOTE_FIELDS, rows)}) c
      WHERE g.group_id = ${uuid(group.id)}`,
  ],
};

/** `side` is null if the quote has none, although the request is two-way. Then it is rejected. */
type QuoteTerms = TradeTerms & { readonly side: Side | null; readonly amount: bigint };

function quoteTerms(command: PlaceQuote, request: RequestTerms, settings: Config): QuoteTerms {
  const fees = venueConfig(settings, readAssetKey(request.asset)?.venue ?? "");
  const price = BigInt(command.price);
  const side = command.side ?? (request.side === "TwoWay" ? null : request.side);
  const amount = quotedAmount(request, price);
  const terms = tradeTerms({
    side: side ?? "Bid",
    asset: request.asset,
    amount,
    price,
    takerFeeBps: BigInt(fees.taker_fee_bps),
    makerFeeBps: BigInt(fees.maker_fee_bps),
  });
  return { ...terms, side, amount };
}

/**
 * A quote's life counts from when the service received it, so that a delay shortens the time for
 * which the maker is bound.
 */
function lifeMs({ expiresInSecs }: PlaceQuote): number {
  return expiresInSecs * 1_000;
}

export function keyUse({ actor, idempotency }: PlaceQuote): KeyUse {
  return { userId: actor.userId, route: ROUTE, kind: "quote", idempotency };
}

type Facts = InstantFact &
  ActorFacts &
  EarlierFacts &
  ProtectionFacts &
  TimerFacts &
  LimitFacts & {
    /** The request's, as readers see it: an open one past its time is expired. */
    readonly status: RequestStatus;
    /** With the reserve of the quote that is replaced. */
    readonly available: string;
    readonly replaced: string | null;
  };

type Given = {
  readonly command: PlaceQuote;
  readonly request: RequestTerms;
  readonly terms: QuoteTerms;
  readonly settings: Config;
};

/**
 * `expr` is over the columns `c` of the command and `requests r`. It has no parameters, because a
 * trigger cannot have any. `reject` returns undefined if the command should be retried.
 */
type QuotePrecondition = {
  readonly expr: (c: CommandColumns) => Expr;
  readonly reject: (facts: Facts, given: Given) => Result | undefined;
};

/** Over `requests r`. */
const REQUEST_VENUE = atom("substr(r.asset, 1, instr(r.asset, ':') - 1)");

function traderOf(c: CommandColumns) {
  return { user: c.maker_id, key: c.api_key_id, replaces: c.replaces };
}

/** In the order in which errors are reported. */
const PRECONDITIONS: readonly QuotePrecondition[] = [
  {
    expr: (c) => rowMayWrite(c.maker_id, c, c.at),
    reject: (facts, { command }) => {
      const problem = actorRejectionOf(command.actor, facts);
      return problem && { ok: false, problem };
    },
  },
  {
    expr: (c) => hashIsUnused(c.key_hash, c.at),
    reject: ({ earlier }, { command }) => recallResult(keyUse(command), earlier),
  },
  {
    expr: (c) => expr`${c.not_after} IS NULL OR ${c.at} < ${c.not_after}`,
    reject: ({ instant }, { command }) =>
      late(
        deadlinePassed(
          instant,
          `The command was not carried out before ${toWireTime(command.notAfter ?? instant)}.`,
        ),
      ),
  },
  {
    expr: (c) => expr`${c.at} < ${c.received_at} + ${c.life_ms}`,
    reject: ({ instant }) =>
      late(deadlinePassed(instant, "The quote had expired before it could be placed.")),
  },
  {
    expr: (c) => expr`${c.at} <= ${c.commit_before}`,
    reject: tookTooLong,
  },
  {
    expr: (c) => socketNotEnded(c.socket_id),
    reject: socketEnded,
  },
  {
    expr: (c) => expr`r.requester_id <> ${c.maker_id}`,
    reject: () => reject("own_request", "You cannot quote your own request."),
  },
  {
    expr: (c) => expr`r.status = 'open' AND r.expires_at > ${c.at}`,
    reject: ({ status }, { command: { requestId } }) =>
      status === "expired"
        ? reject("request_expired", `Request ${requestId} has expired.`)
        : reject("request_not_open", `Request ${requestId} is ${status}.`),
  },
  {
    expr: (c) => marketOpen(atom("r.asset"), c.at).expr,
    reject: () => marketClosed(),
  },
  {
    expr: () => expr`NOT EXISTS (SELECT 1 FROM paused_venues p
      WHERE p.venue = substr(r.asset, 1, instr(r.asset, ':') - 1))`,
    reject: (_, { request }) => venuePaused(readAssetKey(request.asset)?.venue ?? ""),
  },
  {
    expr: (c) => expr`${c.side} IS NOT NULL AND r.side IN (${c.side}, 'TwoWay')`,
    reject: (_, { request, command }) => sideMismatch(request, command),
  },
  {
    expr: replaceable,
    reject: ({ replaced }, { command }) => notReplaceable(command, replaced),
  },
  {
    expr: (c) => timerNotPassed(rowCredential(c.maker_id, c), c.at),
    reject: ({ cancel_at: cancelAt }) => cancelAfterPassed(cancelAt),
  },
  {
    expr: (c) => protectionNotTripped(c.maker_id, c.at),
    reject: ({ blocked_until: until }) => protectionTripped(until),
  },
  {
    expr: () => storageLeft.expr,
    reject: (facts) => storageLeft.reject(facts),
  },
  {
    expr: (c) => expr`iif(${openBoundOf(c.maker_id)} - ${replacedCount(c)} < ${c.max_open_quotes},
      1, ${openQuotesOf(c.maker_id, c.at)} - ${replacedCount(c)} < ${c.max_open_quotes})`,
    reject: (_, { settings }) => tooManyOpen("You have", settings.RFQ_OPEN_QUOTES_PER_USER, ""),
  },
  {
    expr: (c) =>
      expr`${openQuotesOn(c.request_id, expr`maker_id = ${c.maker_id}`)} - ${replacedCount(c)}
        < ${literal(MAX_OPEN_QUOTES_PER_MAKER)}`,
    reject: () => tooManyOpen("You have", MAX_OPEN_QUOTES_PER_MAKER, " on one request"),
  },
  {
    expr: (c) => expr`${openQuotesOn(c.request_id)} - ${replacedCount(c)}
      < ${literal(MAX_OPEN_QUOTES_PER_REQUEST)}`,
    reject: () => tooManyOpen("The request has", MAX_OPEN_QUOTES_PER_REQUEST, ""),
  },
  {
    expr: (c) => sessionAllowed(traderOf(c), c.at),
    reject: (_, { command }) => sessionRejected(command.actor),
  },
  {
    expr: (c) => keyAllows(traderOf(c), { venue: REQUEST_VENUE, exposure: c.reserve }, c.at),
    reject: (facts, { terms }) => keyLimit(facts, terms.reserve),
  },
  {
    expr: (c) => accountAllows(traderOf(c), c.reserve, c.at),
    reject: (facts, { terms }) => accountLimit(facts, terms.reserve),
  },
  {
    expr: (c) =>
      ownerHasAvailable(c.maker_id, c.reserve_asset, expr`${c.reserve} - ${replacedReserve(c)}`),
    reject: ({ available }, { terms }) =>
      insufficientFunds(terms.reserve, BigInt(available), terms.reserveAsset),
  },
  {
    expr: (c) => expr`NOT EXISTS (SELECT 1 FROM quotes WHERE quote_id = ${c.quote_id})`,
    reject: () => undefined,
  },
];

function sideMismatch(request: RequestTerms, { requestId, side }: PlaceQuote): Result {
  const why =
    side === null
      ? `Request ${requestId} is two-way, so a quote on it names its side.`
      : `Request ${requestId} is for ${request.side}, not ${side}.`;
  return reject("side_mismatch", why);
}

function tooManyOpen(whoHas: string, limit: number, where: string): Result {
  return reject("open_quote_limit", `${whoHas} reached the limit of ${limit} open quotes${where}.`);
}

/**
 * A number that the maker's open quotes do not exceed, because counting them for each quote would
 * take longer the more there are. It is what the maker's newest quote states, or the largest of
 * those of the newest instant: what was placed later has ended. Each quote states one more than
 * the one before it. Once that reaches the limit, the quotes are counted, and the next one states
 * their number.
 */
function openBoundOf(makerId: Expr): Expr {
  return expr`ifnull((SELECT max(maker_open) FROM quotes INDEXED BY quotes_maker
    WHERE maker_id = ${makerId} AND opened_at = (SELECT max(opened_at)
      FROM quotes INDEXED BY quotes_maker WHERE maker_id = ${makerId})), 0)`;
}

function openQuotesOf(makerId: Expr, at: Expr): Expr {
  return expr`SELECT count(*) FROM quotes
    WHERE maker_id = ${makerId} AND status = 'open' AND expires_at > ${at}`;
}

function openQuotesOn(requestId: Expr, whose: Expr = TRUE): Expr {
  return expr`SELECT count(*) FROM quotes INDEXED BY quotes_request_status
    WHERE request_id = ${requestId} AND status = 'open' AND ${whose}`;
}

/** What the trigger of `quote_commands` does with each row that is about to be inserted. */
export function quoteTrigger(): Sql[] {
  const c = { ...columnsOf(QUOTE_FIELDS, "NEW"), ...columnsOf(STAMPS, "NEW") };
  const guard = guardOf(PRECONDITIONS.map((precondition) => ({ expr: precondition.expr(c) })));
  return [
    // The command is skipped, and the statement goes on with the next one.
    sql`SELECT RAISE(IGNORE) WHERE NOT EXISTS (
      SELECT 1 FROM requests r WHERE r.request_id = ${c.request_id} AND ${guard})`,
    ...placed(c),
    // Nothing is stored here. What was done above stays.
    sql`SELECT RAISE(IGNORE)`,
  ];
}

const STAMPS = { at: "integer", placed_group: "integer" } as const;

/**
 * The statements that place the quote, once all preconditions hold. The quote that it replaces ends
 * first, so that its reserve is available again.
 */
function placed(c: Columns<Field | keyof typeof STAMPS>): Sql[] {
  return [
    ...endReplaced(c),
    sql`INSERT INTO quotes (quote_id, request_id, maker_id, credential, asset, amount, side, price,
        usdc_amount, taker_fee, maker_fee, reserve_asset, reserve, status, opened_at, expires_at,
        opened_group, label, maker_open)
      SELECT ${c.quote_id}, r.request_id, ${c.maker_id}, ${rowCredential(c.maker_id, c)},
        r.asset, ${c.amount}, ${c.side}, ${c.price},
        ${c.usdc_amount}, ${c.taker_fee}, ${c.maker_fee}, ${c.reserve_asset}, ${c.reserve}, 'open',
        ${c.at}, min(r.expires_at, min(${c.at}, ${c.received_at}) + ${c.life_ms}), ${c.placed_group},
        ${c.label}, 1 + iif(${openBoundOf(c.maker_id)} < ${c.max_open_quotes},
          ${openBoundOf(c.maker_id)}, ${openQuotesOf(c.maker_id, c.at)})
      FROM requests r WHERE r.request_id = ${c.request_id}`,
    transfer(c, {
      reason: "reserve_rfq",
      step: "reserve",
      from: "available",
      to: "pending",
      source: sql`SELECT ${c.maker_id} AS from_owner, ${c.maker_id} AS to_owner,
        ${c.reserve_asset} AS asset, ${c.reserve} AS amount, ${c.quote_id} AS ref, 0 AS line`,
    }),
    rememberRow({
      key: c,
      record: sql`SELECT ${c.quote_id} AS id WHERE ${c.key_hash} IS NOT NULL`,
      at: c.at,
    }),
  ];
}
