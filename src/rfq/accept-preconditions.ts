/** What must hold for an accept, in the order of errors: of a quote, or of the best at a price. */
import { readAssetKey, USDC } from "../assets/asset.ts";
import type { RequestSide } from "../assets/asset-fields.ts";
import { actorFacts, type ActorFacts } from "../auth/may-write.ts";
import { availableText, canReceive, canTrade, FEES_OWNER, usable } from "../ledger/post.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { beforeDeadline, type InstantFact } from "../platform/deadline.ts";
import { type Precondition, type Question, questionOf } from "../platform/preconditions.ts";
import {
  atom,
  type Columns,
  type Expr,
  expr,
  jsonObject,
  jsonText,
  raw,
  sql,
  uuid,
} from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { timerNotPassed } from "./cancel-timer.ts";
import {
  type Accept,
  type AcceptPrice,
  type AcceptQuote,
  recordNamedBy,
  refused,
  reject,
  type Result,
} from "./command.ts";
import { bestQuote, isWithin, limitOf } from "./price-limit.ts";
import {
  actorMayWrite,
  insufficientFunds,
  inTime,
  marketOpen,
  quoteNotOpen,
  REQUEST_VENUE,
  requestMatched,
  requestOpen,
  sideMismatch,
  venuePaused,
} from "./rejections.ts";
import { type MatchRow, matchColumns } from "./rfq-records.ts";
import type { QuoteStatus, RequestStatus } from "./statuses.ts";
import { limitFacts, type LimitFacts, traderOf, withinLimits } from "./trade-limits.ts";

const USDC_KEY = atom("?", [USDC]);

export const venueNotPaused = expr`NOT EXISTS (SELECT 1 FROM paused_venues p
  WHERE p.venue = ${REQUEST_VENUE})`;

/** Over `quote_sides s`. */
export const TRADED_SIDE = { venue: atom("s.venue"), exposure: atom("s.given_amount") };

/** Over `quote_sides s`. No side pays or receives more USDC. */
const TRADED = {
  asset: atom("s.asset"),
  amount: expr`CAST(s.amount AS INTEGER)`,
  usdc: expr`max(s.usdc_amount, iif(s.complement IS NULL, 0, CAST(s.amount AS INTEGER)))
    + s.taker_fee + s.maker_fee`,
};

/** Over `quote_sides s`: the requester has what they would give. */
export function canPay(requester: Expr): Expr {
  return expr`EXISTS (SELECT 1 FROM accounts a WHERE a.owner = ${requester}
    AND a.asset = s.given_asset
    AND a.kind = 'available' AND ${usable()} >= s.given_amount)`;
}

const IS_BID = expr`s.side = 'Bid'`;
/** Who gets the token of their trade. The requester does for a Bid, the maker for the others. */
const MAKER_BUYS = expr`(s.side = 'Ask') = (s.complement IS NULL)`;
const REQUESTER_GETS = expr`iif(${IS_BID}, ${TRADED.amount}, s.usdc_amount)`;
const MAKER_TOKEN = expr`ifnull(s.complement, s.asset)`;
const MAKER_GETS = expr`iif(${MAKER_BUYS}, ${TRADED.amount},
  iif(s.complement IS NULL, s.usdc_amount, ${TRADED.amount} - s.usdc_amount))`;
const tradedKind = (buys: Expr) => expr`iif(${buys}, 'available', 'pending')`;

/** Over `quote_sides s`: what each side, the fees and the pair get, and the sums of both trades. */
export const balancesHold = expr`${canReceive(
  atom("s.requester_id"),
  expr`iif(${IS_BID}, s.asset, ${USDC_KEY})`,
  REQUESTER_GETS,
)}
    AND ${canReceive(
      atom("s.maker_id"),
      expr`iif(${MAKER_BUYS}, ${MAKER_TOKEN}, ${USDC_KEY})`,
      MAKER_GETS,
    )}
    AND ${canReceive(FEES_OWNER, USDC_KEY, expr`s.taker_fee + s.maker_fee`)}
    AND ${canTrade(atom("s.requester_id"), tradedKind(IS_BID), TRADED)}
    AND ${canTrade(atom("s.maker_id"), tradedKind(MAKER_BUYS), { ...TRADED, asset: MAKER_TOKEN })}
    AND (s.complement IS NULL OR ${canReceive(atom("s.pair"), USDC_KEY, TRADED.amount)})`;

type Facts = InstantFact &
  LimitFacts & {
    readonly quote_status: QuoteStatus;
    readonly request_status: RequestStatus;
    readonly request_side: RequestSide;
    readonly expires_at: number;
    readonly best_price: number | null;
    readonly asset: string;
    readonly given_asset: string;
    readonly required: string;
    readonly available: string;
    readonly match_id: string | null;
  };

type Checks = readonly Precondition<Facts & ActorFacts & ExistingMatchFacts, Result>[];

/** Over `requests r` and `quote_sides s`, of which there is none if no quote is within the limit. */
export function acceptPreconditions(command: Accept, settings: Config, at: Expr): Checks {
  const { actor } = command;
  const requester = uuid(actor.userId);
  const own = command.op === "accept" ? ofQuote(command, at) : ofPrice(command, at);
  return [
    actorMayWrite(actor, at),
    {
      expr: expr`r.requester_id = ${requester}`,
      reject: () => reject("not_request_owner", "Only the requester may accept a quote."),
    },
    own.repeated,
    ...beforeDeadline(at, command.notAfter, refused),
    inTime(command, at, settings),
    ...own.open,
    marketOpen(atom("r.asset"), at),
    ...own.timer,
    {
      expr: venueNotPaused,
      reject: ({ asset }) => venuePaused(readAssetKey(asset)?.venue ?? ""),
    },
    ...own.found,
    ...withinLimits<Facts>(actor, TRADED_SIDE, {
      at,
      required: ({ required }) => BigInt(required),
    }),
    {
      expr: canPay(requester),
      reject: ({ required, available, given_asset }) =>
        insufficientFunds(BigInt(required), BigInt(available), given_asset),
    },
    {
      expr: balancesHold,
      reject: () =>
        reject("balance_limit", "A balance or a sum of trades would exceed 2^62 native units."),
    },
  ];
}

/** The preconditions of one form of the command, by their places in the order of errors. */
type OwnChecks = {
  readonly repeated: Checks[number];
  readonly open: Checks;
  readonly timer: Checks;
  readonly found: Checks;
};

function ofQuote(command: AcceptQuote, at: Expr): OwnChecks {
  const { quoteId } = command;
  return {
    repeated: {
      expr: expr`s.status <> 'accepted'`,
      reject: ({ existing }) => existingMatch(command, existing),
    },
    open: [
      {
        expr: expr`s.status NOT IN ('cancelled', 'rejected')`,
        reject: ({ quote_status, match_id }) => quoteNotOpen(quoteId, quote_status, match_id),
      },
      {
        expr: expr`r.status NOT IN ('cancelled', 'matched')`,
        reject: ({ request_status }) =>
          reject("request_not_open", `The request is ${request_status}.`),
      },
      {
        // A quote never outlives its request, whose expiry is therefore reported as the quote's.
        expr: expr`s.status = 'open' AND s.expires_at > ${at}
          AND r.status = 'open' AND r.expires_at > ${at}`,
        reject: ({ expires_at }) =>
          reject("quote_expired", `Quote ${quoteId} expired at ${toWireTime(expires_at)}.`),
      },
    ],
    timer: [
      {
        // After its timer a quote may still be open: the alarm that cancels it is late.
        expr: timerNotPassed(atom("s.credential"), at),
        reject: () => quoteNotOpen(quoteId, "cancelled", null),
      },
    ],
    found: [],
  };
}

function ofPrice(command: AcceptPrice, at: Expr): OwnChecks {
  const { requestId } = command;
  const { side } = limitOf(command);
  return {
    repeated: {
      expr: expr`r.status <> 'matched'`,
      reject: ({ existing, match_id }) =>
        existingMatch(command, existing) ?? requestMatched(requestId, match_id),
    },
    open: [
      ...requestOpen(requestId, at),
      {
        expr: expr`${side} IS NOT NULL AND r.side IN (${side}, 'TwoWay')`,
        reject: ({ request_side }) => sideMismatch(request_side, command),
      },
    ],
    timer: [],
    found: [
      {
        expr: expr`s.quote_id IS NOT NULL`,
        reject: ({ best_price }) =>
          reject(
            "no_quote_within",
            `No open quote on request ${requestId} has that price or a better one.`,
            { best_price },
          ),
      },
    ],
  };
}

/** Chosen by the guard, so that a quote which is better at the commit is not missed. */
export function wantedQuote(command: Accept, at: Expr): Expr {
  return command.op === "accept" ? uuid(command.quoteId) : bestQuote(limitOf(command), at);
}

export function whyNotAccepted(command: Accept, settings: Config): Question<Result> {
  const { actor } = command;
  // Without the limit SQLite would join the whole view.
  const wanted = sql`SELECT * FROM quote_sides
    WHERE quote_id = ${wantedQuote(command, NOW)} LIMIT 1`;
  return questionOf({
    preconditions: acceptPreconditions(command, settings, NOW),
    facts: {
      instant: NOW,
      quote_status: atom("s.status"),
      request_status: atom("r.status"),
      request_side: atom("r.side"),
      expires_at: atom("s.expires_at"),
      best_price: command.op === "accept" ? atom("NULL") : bestPrice(command),
      asset: atom("r.asset"),
      given_asset: atom("s.given_asset"),
      required: atom("s.given_amount_text"),
      available: availableText(actor.userId, atom("s.given_asset")),
      ...limitFacts(traderOf(actor), TRADED_SIDE.venue),
      match_id: expr`SELECT hex(m.match_id) FROM matches m WHERE m.request_id = r.request_id`,
    },
    apart: { ...actorFacts(actor), ...existingMatchFacts(command) },
    from:
      command.op === "accept"
        ? sql`FROM (${wanted}) s JOIN requests r ON r.request_id = s.request_id`
        : sql`FROM requests r LEFT JOIN (${wanted}) s
            WHERE r.request_id = ${uuid(command.requestId)}`,
    // The record may be in the archive, but its match still serves a repeated accept.
    missing: ({ existing }) => {
      const { kind, id } = recordNamedBy(command);
      return (
        existingMatch(command, existing) ?? reject(`${kind}_unknown`, `There is no ${kind} ${id}.`)
      );
    },
  });
}

function bestPrice(command: AcceptPrice): Expr {
  const best = bestQuote({ ...limitOf(command), price: null }, NOW);
  return expr`SELECT price FROM quotes WHERE quote_id = ${best}`;
}

/** The match that the same requester made of the quote or request, as JSON text. */
type ExistingMatchFacts = { readonly existing: string | null };

function existingMatchFacts(command: Accept): Columns<"existing"> {
  const { kind, id } = recordNamedBy(command);
  const user = uuid(command.actor.userId);
  return {
    existing: expr`SELECT ${jsonText(jsonObject(matchColumns(user)))} FROM matches m
      WHERE m.${raw(`${kind}_id`)} = ${uuid(id)} AND m.requester_id = ${user}`,
  };
}

/** The result of a repeat. A match at a worse price than the limit is none. */
function existingMatch(command: Accept, existing: string | null): Result | undefined {
  if (existing === null) return undefined;
  // Safe cast: the text is a `json_object` of the columns that the row type lists.
  const row = JSON.parse(existing) as MatchRow;
  if (command.op === "accept_price" && !isWithin(row, command)) return undefined;
  return { ok: true, kind: "match", row, replayed: true };
}
