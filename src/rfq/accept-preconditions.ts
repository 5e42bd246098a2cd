/**
 * What must hold for an accept, in the order of errors: of a quote, or of the best at a price. A
 * trigger checks it, a rejection asks it.
 */
import { readAssetKey } from "../assets/asset.ts";
import type { RequestSide } from "../assets/asset-fields.ts";
import { actorFacts, type ActorFacts, rowMayWrite } from "../auth/may-write.ts";
import {
  availableText,
  canReceive,
  canTrade,
  FEES_OWNER,
  IN_USDC,
  usable,
} from "../ledger/post.ts";
import { boundColumns, columnsOf, type CommandRow } from "../platform/command-rows.ts";
import { NOW } from "../platform/commit.ts";
import type { InstantFact } from "../platform/deadline.ts";
import { type Question, questionOf } from "../platform/preconditions.ts";
import {
  and,
  atom,
  type Columns,
  type Expr,
  expr,
  jsonObject,
  jsonText,
  raw,
  select,
  sql,
  uuid,
} from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import {
  ACCEPT_FIELDS,
  type AcceptColumns,
  type AcceptField,
  standingUnchanged,
  wantedQuote,
} from "./accept-command.ts";
import { timerNotPassed } from "./cancel-timer.ts";
import { type Accept, recordNamedBy, reject, type Result } from "./command.ts";
import { bestQuote, isWithin, limitOf } from "./price-limit.ts";
import {
  actorRejected,
  afterDeadline,
  insufficientFunds,
  marketClosed,
  marketOpen,
  notInTime,
  quoteNotOpen,
  REQUEST_VENUE,
  requestMatched,
  requestOpen,
  rowBeforeDeadline,
  rowInTime,
  sideMismatch,
  venuePaused,
} from "./rejections.ts";
import { type MatchRow, matchColumns } from "./rfq-records.ts";
import type { QuoteStatus, RequestStatus } from "./statuses.ts";
import {
  accountAllows,
  accountLimit,
  keyAllows,
  keyLimit,
  limitFacts,
  type LimitFacts,
  sessionAllowed,
  sessionRejected,
  traderOf,
} from "./trade-limits.ts";

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
  expr`iif(${IS_BID}, s.asset, ${IN_USDC})`,
  REQUESTER_GETS,
)}
    AND ${canReceive(
      atom("s.maker_id"),
      expr`iif(${MAKER_BUYS}, ${MAKER_TOKEN}, ${IN_USDC})`,
      MAKER_GETS,
    )}
    AND ${canReceive(FEES_OWNER, IN_USDC, expr`s.taker_fee + s.maker_fee`)}
    AND ${canTrade(atom("s.requester_id"), tradedKind(IS_BID), TRADED)}
    AND ${canTrade(atom("s.maker_id"), tradedKind(MAKER_BUYS), { ...TRADED, asset: MAKER_TOKEN })}
    AND ${canReceive(atom("s.pair"), IN_USDC, TRADED.amount)}`;

type Facts = InstantFact &
  ActorFacts &
  ExistingMatchFacts &
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

type AcceptPrecondition = {
  /** The form of the command that has it. Absent: both. */
  readonly of?: Accept["op"];
  readonly expr: (c: AcceptColumns) => Expr;
  readonly reject: (facts: Facts, command: Accept) => Result | undefined;
};

function traderOfCommand(c: AcceptColumns) {
  return { user: c.requester_id, key: c.api_key_id };
}

/**
 * Over the columns `c` of the command, `requests r` and `quote_sides s`, of which there is none if
 * no quote is within the limit. Without parameters, because a trigger cannot have any.
 */
const PRECONDITIONS: readonly AcceptPrecondition[] = [
  {
    expr: (c) => rowMayWrite(c.requester_id, c, c.at),
    reject: (facts, { actor }) => actorRejected(actor, facts),
  },
  {
    expr: (c) => expr`r.requester_id = ${c.requester_id}`,
    reject: () => reject("not_request_owner", "Only the requester may accept a quote."),
  },
  {
    of: "accept",
    expr: () => expr`s.status <> 'accepted'`,
    reject: ({ existing }, command) => existingMatch(command, existing),
  },
  {
    of: "accept_price",
    expr: () => expr`r.status <> 'matched'`,
    reject: ({ existing, match_id }, command) =>
      existingMatch(command, existing) ?? requestMatched(recordNamedBy(command).id, match_id),
  },
  {
    expr: rowBeforeDeadline,
    reject: (facts, { notAfter }) => afterDeadline(facts, notAfter),
  },
  {
    expr: rowInTime,
    reject: (facts, { receivedAt }) => notInTime(facts, receivedAt),
  },
  {
    of: "accept",
    expr: () => expr`s.status NOT IN ('cancelled', 'rejected')`,
    reject: ({ quote_status, match_id }, command) =>
      quoteNotOpen(recordNamedBy(command).id, quote_status, match_id),
  },
  {
    of: "accept",
    expr: () => expr`r.status NOT IN ('cancelled', 'matched')`,
    reject: ({ request_status }) => reject("request_not_open", `The request is ${request_status}.`),
  },
  {
    // A quote never outlives its request, whose expiry is therefore reported as the quote's.
    of: "accept",
    expr: (c) => expr`s.status = 'open' AND s.expires_at > ${c.at}
      AND r.status = 'open' AND r.expires_at > ${c.at}`,
    reject: ({ expires_at }, command) =>
      reject(
        "quote_expired",
        `Quote ${recordNamedBy(command).id} expired at ${toWireTime(expires_at)}.`,
      ),
  },
  ...requestOpen.map(({ expr: open, reject: closed }) => ({
    of: "accept_price" as const,
    expr: (c: AcceptColumns) => open(c.at),
    reject: (_: Facts, command: Accept) => closed(recordNamedBy(command).id),
  })),
  {
    of: "accept_price",
    expr: (c) => expr`${limitOf(c).side} IS NOT NULL AND r.side IN (${limitOf(c).side}, 'TwoWay')`,
    reject: ({ request_side }, command) =>
      command.op === "accept" ? undefined : sideMismatch(request_side, command),
  },
  {
    expr: (c) => marketOpen(atom("r.asset"), c.at).expr,
    reject: () => marketClosed(),
  },
  {
    // After its timer a quote may still be open: the alarm that cancels it is late.
    of: "accept",
    expr: (c) => timerNotPassed(atom("s.credential"), c.at),
    reject: (_, command) => quoteNotOpen(recordNamedBy(command).id, "cancelled", null),
  },
  {
    expr: () => venueNotPaused,
    reject: ({ asset }) => venuePaused(readAssetKey(asset)?.venue ?? ""),
  },
  {
    of: "accept_price",
    expr: () => expr`s.quote_id IS NOT NULL`,
    reject: ({ best_price }, command) =>
      reject(
        "no_quote_within",
        `No open quote on request ${recordNamedBy(command).id} has that price or a better one.`,
        { best_price },
      ),
  },
  {
    // Nobody asks why a standing accept did nothing.
    expr: standingUnchanged,
    reject: () => undefined,
  },
  {
    expr: (c) => sessionAllowed(traderOfCommand(c), c.at),
    reject: (_, { actor }) => sessionRejected(actor),
  },
  {
    expr: (c) => keyAllows(traderOfCommand(c), TRADED_SIDE, c.at),
    reject: (facts) => keyLimit(facts, BigInt(facts.required)),
  },
  {
    expr: (c) => accountAllows(traderOfCommand(c), TRADED_SIDE.exposure, c.at),
    reject: (facts) => accountLimit(facts, BigInt(facts.required)),
  },
  {
    expr: (c) => canPay(c.requester_id),
    reject: ({ required, available, given_asset }) =>
      insufficientFunds(BigInt(required), BigInt(available), given_asset),
  },
  {
    expr: () => balancesHold,
    reject: () =>
      reject("balance_limit", "A balance or a sum of trades would exceed 2^62 native units."),
  },
];

/** Of the wanted quote. An accept at a price finds one only if what it alone requires holds. */
export function acceptGuard(c: AcceptColumns): Expr {
  return and(PRECONDITIONS.filter(({ of }) => of !== "accept_price").map((one) => one.expr(c)));
}

export function whyNotAccepted(command: Accept, row: CommandRow<AcceptField>): Question<Result> {
  const { actor } = command;
  // Each field is a parameter once, because D1 takes a hundred.
  const c = { ...columnsOf(ACCEPT_FIELDS, "c"), at: NOW };
  const bound = sql`(SELECT ${select(boundColumns(ACCEPT_FIELDS, row))}) c`;
  const wanted = wantedQuote({ ...boundColumns(ACCEPT_FIELDS, row), at: NOW });
  const own = PRECONDITIONS.filter(({ of }) => of === undefined || of === command.op);
  return questionOf({
    preconditions: own.map((precondition) => ({
      expr: precondition.expr(c),
      reject: (facts: Facts) => precondition.reject(facts, command),
    })),
    facts: {
      instant: NOW,
      quote_status: atom("s.status"),
      request_status: atom("r.status"),
      request_side: atom("r.side"),
      expires_at: atom("s.expires_at"),
      best_price: bestPrice(c),
      asset: atom("r.asset"),
      given_asset: atom("s.given_asset"),
      required: atom("s.given_amount_text"),
      available: availableText(actor.userId, atom("s.given_asset")),
      ...limitFacts(traderOf(actor), TRADED_SIDE.venue),
      match_id: expr`SELECT hex(m.match_id) FROM matches m WHERE m.request_id = r.request_id`,
    },
    apart: { ...actorFacts(actor), ...existingMatchFacts(command) },
    // In this order, which SQLite does not change. Without the limit it would join the whole view.
    from:
      command.op === "accept"
        ? sql`FROM ${bound} CROSS JOIN quote_sides s ON s.quote_id = c.quote_id
            CROSS JOIN requests r ON r.request_id = s.request_id`
        : sql`FROM ${bound} CROSS JOIN requests r ON r.request_id = c.request_id
            LEFT JOIN (SELECT * FROM quote_sides WHERE quote_id = ${wanted} LIMIT 1) s`,
    // The record may be in the archive, but its match still serves a repeated accept.
    missing: ({ existing }) => {
      const { kind, id } = recordNamedBy(command);
      return (
        existingMatch(command, existing) ?? reject(`${kind}_unknown`, `There is no ${kind} ${id}.`)
      );
    },
  });
}

/** Of an accept at a price: the best one that it could have had. */
function bestPrice(c: AcceptColumns): Expr {
  return expr`SELECT price FROM quotes WHERE quote_id = ${bestQuote({ ...limitOf(c), price: null }, c.at)}`;
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
