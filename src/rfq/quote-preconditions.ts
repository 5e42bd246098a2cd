/** What must hold for a quote, in the order of errors. A trigger checks it, a rejection asks it. */
import { ownerHasAvailable } from "../ledger/post.ts";
import type { Config } from "../platform/config.ts";
import { deadlinePassed, type InstantFact } from "../platform/deadline.ts";
import { unavailable } from "../platform/problem.ts";
import { atom, type Expr, expr, literal, raw, type Sql, sql } from "../platform/sql.ts";
import { type ActorFacts, rowCredential, rowMayWrite } from "../auth/may-write.ts";
import { readAssetKey, USDC } from "../assets/asset.ts";
import { venueOf } from "../platform/venues.ts";
import { socketNotEnded } from "./cancel-on-disconnect.ts";
import { cancelAfterPassed, type TimerFacts, timerNotPassed } from "./cancel-timer.ts";
import { type PlaceQuote, refused, reject, type Result } from "./command.ts";
import { type EarlierFacts, hashIsUnused, recallResult } from "./idempotency.ts";
import { priceInRange, priceOutOfRange, type RangeFacts } from "./last-price.ts";
import {
  type ProtectionFacts,
  protectionNotTripped,
  protectionTripped,
} from "./protection-record.ts";
import {
  actorRejected,
  afterDeadline,
  insufficientFunds,
  marketClosed,
  marketOpen,
  notInTime,
  REQUEST_VENUE,
  rowBeforeDeadline,
  rowInTime,
  sideMismatch,
  storageLeft,
  venuePaused,
} from "./rejections.ts";
import { notReplaceable, replaceable, replacedCount, replacedReserve } from "./replaced-quote.ts";
import type { RequestTerms } from "./request-terms.ts";
import {
  accountAllows,
  accountLimit,
  keyAllows,
  keyLimit,
  type LimitFacts,
  sessionAllowed,
  sessionRejected,
} from "./trade-limits.ts";
import type { RequestStatus } from "./statuses.ts";
import {
  type CommandColumns,
  backingOf,
  type QuoteTerms,
  reserveAssetOf,
} from "./quote-command.ts";
import { mintingReserve } from "./trade-terms.ts";

/**
 * Of each side of a request. Bounds the work of the accept that rejects them all. Beyond it a
 * better quote replaces the worst, so that worthless quotes do not keep others out.
 */
export const MAX_OPEN_QUOTES_PER_SIDE = 500;
/** Quotes of one maker on a side: as many as one frame places. To fill a side takes 25 makers. */
export const MAX_OPEN_QUOTES_PER_MAKER = 20;

export type Facts = InstantFact &
  ActorFacts &
  EarlierFacts &
  ProtectionFacts &
  RangeFacts &
  TimerFacts &
  LimitFacts & {
    /** The request's, as readers see it: an open one past its time is expired. */
    readonly status: RequestStatus;
    /** With the reserve of the quote that is replaced. */
    readonly available: string;
    readonly replaced: string | null;
    readonly complement: string | null;
    readonly asset_available: string;
  };

export type Given = {
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

export function traderOfCommand(c: CommandColumns) {
  return { user: c.maker_id, key: c.api_key_id, replaces: c.replaces };
}

export const PRECONDITIONS: readonly QuotePrecondition[] = [
  {
    expr: (c) => rowMayWrite(c.maker_id, c, c.at),
    reject: (facts, { command }) => actorRejected(command.actor, facts),
  },
  {
    expr: (c) => hashIsUnused("place_quote", c.key_hash, c.at),
    reject: ({ earlier }, { command }) => recallResult(command, earlier),
  },
  {
    expr: rowBeforeDeadline,
    reject: (facts, { command }) => afterDeadline(facts, command.notAfter),
  },
  {
    expr: (c) => expr`${c.at} < ${c.received_at} + ${c.life_ms}`,
    reject: ({ instant }) =>
      refused(deadlinePassed(instant, "The quote had expired before it could be placed.")),
  },
  {
    expr: rowInTime,
    reject: (facts, { command }) => notInTime(facts, command.receivedAt),
  },
  {
    expr: (c) => socketNotEnded(c.socket_id),
    reject: () =>
      refused(unavailable("none", "The socket ended before the quote could be placed.")),
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
      WHERE p.venue = ${venueOf("r.asset")})`,
    reject: (_, { request }) => venuePaused(readAssetKey(request.asset)?.venue ?? ""),
  },
  {
    expr: (c) => expr`${c.side} IS NOT NULL AND r.side IN (${c.side}, 'TwoWay')`,
    reject: (_, { request, command }) => sideMismatch(request.side, command),
  },
  {
    expr: (c) => expr`${c.backing} IS NULL OR (
      ${c.backing} = iif(${c.side} = 'Bid', 'usdc', 'complement')
      AND ${backingOf(atom("r.asset"), c.backing)} IS NOT NULL)`,
    reject: ({ complement }, { request, terms }) =>
      complement === null || (terms.backing === "complement" && terms.side === "Ask")
        ? reject("not_paired", `${request.asset} has no complement, or none that backs an Ask.`)
        : reject("side_mismatch", "A complement backs an Ask only."),
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
    expr: priceInRange,
    reject: (facts) => priceOutOfRange(facts),
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
    // SQLite tests conditions in their order, so the one that few quotes meet comes first.
    expr: (c) => expr`(SELECT count(*) FROM ${openOnRequest(c)}
      AND maker_id = ${c.maker_id} AND ${othersOnSide(c)}) < ${literal(MAX_OPEN_QUOTES_PER_MAKER)}`,
    reject: () => tooManyOpen("You have", MAX_OPEN_QUOTES_PER_MAKER, " on one side of a request"),
  },
  {
    expr: betterThanLast,
    reject: () =>
      tooManyOpen("The request has", MAX_OPEN_QUOTES_PER_SIDE, " of this side, none of them worse"),
  },
  {
    expr: (c) => sessionAllowed(traderOfCommand(c), c.at),
    reject: (_, { command }) => sessionRejected(command.actor),
  },
  {
    expr: (c) => keyAllows(traderOfCommand(c), { venue: REQUEST_VENUE, exposure: c.reserve }, c.at),
    reject: (facts, { terms }) => keyLimit(facts, terms.reserve),
  },
  {
    expr: (c) => accountAllows(traderOfCommand(c), c.reserve, c.at),
    reject: (facts, { terms }) => accountLimit(facts, terms.reserve),
  },
  {
    expr: (c) => expr`${c.backing} IS NULL OR CAST(${c.amount} AS INTEGER) - ${c.usdc_amount}
      >= iif(${c.side} = 'Bid', 1, max(1, ${c.maker_fee}))`,
    reject: (facts, given) => nothingForThePair(facts, given),
  },
  {
    expr: (c) =>
      ownerHasAvailable(c.maker_id, reserveAssetOf(c), expr`${c.reserve} - ${replacedReserve(c)}`),
    reject: ({ available, complement }, { terms }) => {
      const { backing, reserve, side } = terms;
      const asset = backing === "complement" ? (complement ?? "") : terms.reserveAsset;
      const isTokens = side === "Bid" && backing === null && complement !== null;
      const other = isTokens ? mintingReserve(terms.amount, terms) : undefined;
      return insufficientFunds(reserve, BigInt(available), asset, other);
    },
  },
  {
    expr: (c) => expr`NOT EXISTS (SELECT 1 FROM quotes WHERE quote_id = ${c.quote_id})`,
    reject: () => undefined,
  },
];

/** At such a price a maker would give no USDC for a Bid, or get less than the fee of an Ask. */
function nothingForThePair({ asset_available: free }: Facts, { terms, request }: Given): Result {
  const { side, amount, usdcAmount, makerFee } = terms;
  return side === "Bid"
    ? insufficientFunds(amount, BigInt(free), request.asset)
    : insufficientFunds(makerFee > 1n ? makerFee : 1n, amount - usdcAmount, USDC);
}

function tooManyOpen(whoHas: string, limit: number, where: string): Result {
  return reject("open_quote_limit", `${whoHas} reached the limit of ${limit} open quotes${where}.`);
}

/**
 * A number that the maker's open quotes do not exceed, because counting them for each quote would
 * take longer the more there are. It is what the maker's newest quote states, or the largest of
 * those of the newest instant: what was placed later has ended. Each quote states one more than the
 * one before it. Once that reaches the limit, the quotes are counted anew.
 */
function openBoundOf(makerId: Expr): Expr {
  return expr`ifnull((${newestBoundOf(makerId)}), 0)`;
}

function newestBoundOf(makerId: Expr): Sql {
  return sql`SELECT max(maker_open) FROM quotes INDEXED BY quotes_maker
    WHERE maker_id = ${makerId} AND opened_at = (SELECT max(opened_at)
      FROM quotes INDEXED BY quotes_maker WHERE maker_id = ${makerId})`;
}

/** What the maker's next quote states: the bound with itself, or the number once that is needed. */
export function nextOpenBound(c: CommandColumns): Expr {
  return expr`1 + coalesce((${newestBoundOf(c.maker_id)} HAVING max(maker_open) < ${c.max_open_quotes}),
    ${openQuotesOf(c.maker_id, c.at)})`;
}

function openQuotesOf(makerId: Expr, at: Expr): Expr {
  return expr`SELECT count(*) FROM quotes
    WHERE maker_id = ${makerId} AND status = 'open' AND expires_at > ${at}`;
}

/** A full side takes a quote only in the place of a worse one. Of equal prices the older stays. */
function betterThanLast(c: CommandColumns): Expr {
  return expr`iif(${mayBeFull(c)}, ifnull(iif(${c.side} = 'Ask', ${c.price} > ${lastAsk(c)},
    ${c.price} < ${lastBid(c)}), 1), 1)`;
}

/** The quote that a better one outbids, or null: of the last price the newest. */
export function outbidBy(c: CommandColumns): Expr {
  return expr`iif(${mayBeFull(c)}, (SELECT quote_id FROM ${openOnRequest(c)} AND ${othersOnSide(c)}
    AND price = iif(${c.side} = 'Ask', ${lastAsk(c)}, ${lastBid(c)})
    ORDER BY opened_at DESC, quote_id DESC LIMIT 1), NULL)`;
}

/** The price in the last place of a full side, which an index finds without a sort. Else null. */
const lastAsk = (c: CommandColumns) => lastPrice(c, "price DESC");
const lastBid = (c: CommandColumns) => lastPrice(c, "price");

/** Quotes that were set aside cannot be ended, so they do not count. */
function lastPrice(c: CommandColumns, order: string): Expr {
  return expr`SELECT price FROM ${openOnRequest(c)} AND ${othersOnSide(c)}
    ORDER BY ${raw(order)} LIMIT 1 OFFSET ${literal(MAX_OPEN_QUOTES_PER_SIDE - 1)}`;
}

/** False if a side has room. To count takes a third of the time of looking at each. */
function mayBeFull(c: CommandColumns): Expr {
  return expr`(SELECT count(*) FROM ${openOnRequest(c)}) >= ${literal(MAX_OPEN_QUOTES_PER_SIDE)}`;
}

function openOnRequest(c: CommandColumns): Sql {
  return sql`quotes INDEXED BY quotes_request_status
    WHERE request_id = ${c.request_id} AND status = 'open'`;
}

/** Quotes of the command's side that count, without the one that it replaces. */
function othersOnSide(c: CommandColumns): Sql {
  return sql`stuck_at IS NULL AND side = ${c.side} AND quote_id IS NOT ${c.replaces}`;
}

/** What the preconditions reject a quote with. */
export const PLACE_QUOTE_PROBLEMS = [
  "request_unknown",
  "deadline_passed",
  "own_request",
  "request_not_open",
  "request_expired",
  "market_closed",
  "venue_paused",
  "side_mismatch",
  "not_paired",
  "quote_unknown",
  "not_quote_owner",
  "replace_mismatch",
  "quote_not_open",
  "cancel_after_passed",
  "protection_tripped",
  "price_out_of_range",
  "open_quote_limit",
  "key_limit",
  "account_limit",
  "insufficient_funds",
] as const;
