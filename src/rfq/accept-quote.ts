import { USDC } from "../assets/asset.ts";
import { countTraded } from "../auth/exposure.ts";
import {
  availableText,
  canReceive,
  canTrade,
  FEES_OWNER,
  postTogether,
  usable,
} from "../ledger/post.ts";
import { type Group, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { beforeDeadline, type InstantFact } from "../platform/deadline.ts";
import { guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import {
  atom,
  type Columns,
  type Expr,
  expr,
  join,
  jsonObject,
  jsonText,
  raw,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import type { Actor } from "../platform/actor.ts";
import { toWireTime } from "../platform/time.ts";
import { timerNotPassed } from "./cancel-timer.ts";
import { type AcceptQuote, refused, reject, type Result } from "./command.ts";
import { hexId, type Operation } from "./book-operation.ts";
import { type MatchRow, matchColumns } from "./rfq-records.ts";
import type { QuoteStatus, RequestStatus } from "./statuses.ts";
import { actorFacts, type ActorFacts } from "../auth/may-write.ts";
import {
  actorMayWrite,
  insufficientFunds,
  inTime,
  marketOpen,
  quoteNotOpen,
  venuePaused,
} from "./rejections.ts";
import { quotesOfTripped } from "./protection-record.ts";
import { endedBy } from "./ended.ts";
import { limitFacts, type LimitFacts, traderOf, withinLimits } from "./trade-limits.ts";

/**
 * Accepts a quote: both sides' entries, the match, the quote, the request and the end of every
 * losing quote, or nothing. The maker's side was promised when the quote was placed, so an accept
 * never fails for lack of it. The promise becomes a reserve, from which both sides are settled.
 *
 * A damaged quote in another book must not make it fail either. So if a constraint refuses it, it
 * is tried again without the cancels of the maker's protection, which cron repeats (protection.ts).
 */
export function acceptQuote(
  command: AcceptQuote,
  settings: Config,
  cancelsOthers = true,
): Operation {
  const { actor, matchId, quoteId } = command;
  const checks = (at: Expr) => preconditions(command, settings, at);
  const ofMatch = sql`SELECT request_id FROM matches WHERE match_id = ${uuid(matchId)}`;
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: { kind: "match", id: matchId },
    names: [quoteId],
    binding: true,
    ...(cancelsOthers ? { fallback: () => acceptQuote(command, settings, false) } : {}),
    statements: (group) => [
      sql`UPDATE quotes SET status = 'accepted', ended_by = ${uuid(matchId)},
        ended_group = ${group.seq}
        WHERE quote_id = ${uuid(quoteId)} AND EXISTS (
          SELECT 1 FROM commit_groups g CROSS JOIN quote_sides s
          WHERE g.group_id = ${uuid(group.id)} AND s.quote_id = quotes.quote_id
            AND ${guardOf(checks(atom("g.at")))})`,
      sql`INSERT INTO matches (match_id, request_id, quote_id, requester_id, maker_id, asset, side,
        amount, price,
          usdc_amount, taker_fee, maker_fee, at, matched_group, requester_label, maker_label)
        SELECT ${uuid(matchId)}, q.request_id, q.quote_id, ${uuid(actor.userId)}, q.maker_id,
          q.asset, q.side,
          CAST(q.amount AS INTEGER), q.price, q.usdc_amount, q.taker_fee, q.maker_fee, ${group.at},
            ${group.seq}, r.label, q.label
        FROM quotes q JOIN requests r ON r.request_id = q.request_id
        WHERE ${endedBy(group, matchId, "q")} AND q.status = 'accepted'`,
      sql`UPDATE requests SET status = 'matched', ended_by = ${uuid(matchId)},
        ended_group = ${group.seq}
        WHERE request_id = (${ofMatch})`,
      // The losing quotes, and every other quote of a maker whose protection the match tripped.
      sql`UPDATE quotes SET status = iif(expires_at <= ${group.at}, 'expired',
            iif(request_id = (${ofMatch}), 'rejected', 'cancelled')),
          cancel_reason = iif(expires_at <= ${group.at} OR request_id = (${ofMatch}), NULL,
            'protection'),
          ended_by = ${uuid(matchId)}, ended_group = ${group.seq}
        WHERE status = 'open' AND stuck_at IS NULL AND quote_id IN (
          SELECT quote_id FROM quotes WHERE status = 'open' AND request_id = (${ofMatch})
          ${cancelsOthers ? sql`UNION ALL ${quotesOfTripped(matchId)}` : sql``})`,
      ...settle(group, matchId),
      countTraded(givenBySides(group, actor, matchId), group.at),
    ],
    result: (effects) => {
      const row = effects.matches.get(hexId(matchId));
      return row === undefined ? undefined : { ok: true, kind: "match", row, replayed: false };
    },
    rejection: () => whyNotAccepted(command, checks(NOW)),
  };
}

function whyNotAccepted({ actor, quoteId }: AcceptQuote, checks: ReturnType<typeof preconditions>) {
  return questionOf({
    preconditions: checks,
    facts: {
      instant: NOW,
      status: atom("s.status"),
      request_status: atom("s.request_status"),
      expires_at: atom("s.expires_at"),
      venue: atom("s.venue"),
      given_asset: atom("s.given_asset"),
      required: atom("s.given_amount_text"),
      available: availableText(actor.userId, atom("s.given_asset")),
      ...limitFacts(traderOf(actor), TRADE.venue),
      match_id: expr`SELECT hex(m.match_id) FROM matches m WHERE m.request_id = s.request_id`,
    },
    apart: { ...actorFacts(actor), ...existingMatchFacts(actor.userId, quoteId) },
    from: sql`FROM quote_sides s WHERE s.quote_id = ${uuid(quoteId)}`,
    // The quote may be in the archive, but its match still serves a repeated accept.
    missing: ({ existing }) =>
      existingMatch(existing) ?? reject("quote_unknown", `There is no quote ${quoteId}.`),
  });
}

/** Over `quote_sides s`. */
const TRADE = { venue: atom("s.venue"), exposure: atom("s.given_amount") };

/** Over `quote_sides s`. No side pays or receives more USDC. */
const TRADED = {
  asset: atom("s.asset"),
  amount: expr`CAST(s.amount AS INTEGER)`,
  usdc: expr`s.usdc_amount + s.taker_fee + s.maker_fee`,
};

type Facts = InstantFact &
  LimitFacts & {
    readonly status: QuoteStatus;
    readonly request_status: RequestStatus;
    readonly expires_at: number;
    readonly venue: string;
    readonly given_asset: string;
    readonly required: string;
    readonly available: string;
    readonly match_id: string | null;
  };

/** Over `quote_sides s`. */
function preconditions(
  command: AcceptQuote,
  settings: Config,
  at: Expr,
): readonly Precondition<Facts & ActorFacts & ExistingMatchFacts, Result>[] {
  const { actor, quoteId } = command;
  const requester = uuid(actor.userId);
  return [
    actorMayWrite(actor, at),
    {
      expr: expr`s.requester_id = ${requester}`,
      reject: () => reject("not_request_owner", "Only the requester may accept a quote."),
    },
    {
      expr: expr`s.status <> 'accepted'`,
      reject: ({ existing }) => existingMatch(existing),
    },
    ...beforeDeadline(at, command.notAfter, refused),
    inTime(command, at, settings),
    {
      expr: expr`s.status NOT IN ('cancelled', 'rejected')`,
      reject: ({ status, match_id }) => quoteNotOpen(quoteId, status, match_id),
    },
    {
      expr: expr`s.request_status NOT IN ('cancelled', 'matched')`,
      reject: ({ request_status }) =>
        reject("request_not_open", `The request is ${request_status}.`),
    },
    {
      // A quote never outlives its request, whose expiry is therefore reported as the quote's.
      expr: expr`s.status = 'open' AND s.expires_at > ${at}
        AND s.request_status = 'open' AND s.request_expires_at > ${at}`,
      reject: ({ expires_at }) =>
        reject("quote_expired", `Quote ${quoteId} expired at ${toWireTime(expires_at)}.`),
    },
    marketOpen(atom("s.asset"), at),
    {
      // After its timer a quote may still be open: the alarm that cancels it is late.
      expr: timerNotPassed(atom("s.credential"), at),
      reject: () => quoteNotOpen(quoteId, "cancelled", null),
    },
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM paused_venues p WHERE p.venue = s.venue)`,
      reject: ({ venue }) => venuePaused(venue),
    },
    ...withinLimits<Facts>(actor, TRADE, { at, required: ({ required }) => BigInt(required) }),
    {
      expr: expr`EXISTS (SELECT 1 FROM accounts a WHERE a.owner = ${requester}
        AND a.asset = s.given_asset
        AND a.kind = 'available' AND ${usable()} >= s.given_amount)`,
      reject: ({ required, available, given_asset }) =>
        insufficientFunds(BigInt(required), BigInt(available), given_asset),
    },
    {
      expr: expr`${canReceive(atom("s.seller_id"), USDC_KEY, atom("s.usdc_amount"))}
        AND ${canReceive(atom("s.buyer_id"), atom("s.asset"), expr`CAST(s.amount AS INTEGER)`)}
        AND ${canReceive(FEES_OWNER, USDC_KEY, expr`s.taker_fee + s.maker_fee`)}
        AND ${canTrade(atom("s.buyer_id"), "available", TRADED)}
        AND ${canTrade(atom("s.seller_id"), "pending", TRADED)}`,
      reject: () =>
        reject("balance_limit", "A balance or a sum of trades would exceed 2^62 native units."),
    },
  ];
}

/** What each side gave: by user for the account's policy, by key if it has a limit for a day. */
function givenBySides(group: Group, actor: Actor, matchId: string): Sql {
  const { userId, credential } = actor;
  const accepted = sql`${endedBy(group, matchId, "q")} AND q.status = 'accepted'`;
  const ofMatch = sql`m.match_id = ${uuid(matchId)}`;
  const limited = raw("k.limits ->> 'max_usdc_per_day' IS NOT NULL");
  const sides = [
    sql`SELECT q.maker_id AS subject, q.reserve AS usdc FROM quotes q WHERE ${accepted}`,
    sql`SELECT k.api_key_id, q.reserve FROM quotes q
      JOIN api_keys k ON k.api_key_id = q.credential WHERE ${accepted} AND ${limited}`,
    sql`SELECT ${uuid(userId)}, m.given_amount FROM match_sides m WHERE ${ofMatch}`,
    ...(credential.kind === "session"
      ? []
      : [
          sql`SELECT k.api_key_id, m.given_amount FROM match_sides m
            JOIN api_keys k ON k.api_key_id = ${uuid(credential.apiKeyId)}
            WHERE ${ofMatch} AND ${limited}`,
        ]),
  ];
  return join(sides, " UNION ALL ");
}

const USDC_KEY = atom("?", [USDC]);
const RESERVE = { step: "reserve", from: "available", to: "pending", toExists: true } as const;
const FEE = { reason: "fee", step: "match", to: "fees" } as const;

/** Both sides' entries. The quote is no longer open, so what it promised can be reserved. */
function settle(group: Group, matchId: string): Sql[] {
  const ofMatch = sql`FROM match_sides m WHERE m.match_id = ${uuid(matchId)}`;
  return postTogether(group, [
    {
      ...RESERVE,
      reason: "reserve_trade",
      source: sql`SELECT m.requester_id AS from_owner, m.requester_id AS to_owner,
        m.given_asset AS asset,
        m.given_amount AS amount, m.match_id AS ref, 0 AS line ${ofMatch}`,
    },
    {
      ...RESERVE,
      reason: "reserve_rfq",
      source: sql`SELECT q.maker_id AS from_owner, q.maker_id AS to_owner, q.reserve_asset AS asset,
        q.reserve AS amount, q.quote_id AS ref, 0 AS line
        FROM quotes q WHERE ${endedBy(group, matchId, "q")} AND q.status = 'accepted'`,
    },
    // The maker's leg carries the quote's id, as its reserve does (match_sides). The ledger shows
    // it under the match's id.
    {
      reason: "trade",
      step: "end",
      from: "pending",
      to: "available",
      source: sql`SELECT m.buyer_id AS from_owner, m.seller_id AS to_owner, ${USDC} AS asset,
          m.usdc_amount AS amount, m.buyer_ref AS ref, 0 AS line ${ofMatch}
        UNION ALL
        SELECT m.seller_id, m.buyer_id, m.asset, m.amount, m.seller_ref, 0 ${ofMatch}`,
    },
    {
      ...FEE,
      from: "pending",
      source: sql`SELECT m.buyer_id AS from_owner, ${FEES_OWNER} AS to_owner, ${USDC} AS asset,
        m.buyer_fee AS amount, m.match_id AS ref, 0 AS line ${ofMatch}`,
    },
    {
      ...FEE,
      from: "available",
      source: sql`SELECT m.seller_id AS from_owner, ${FEES_OWNER} AS to_owner, ${USDC} AS asset,
        m.seller_fee AS amount, m.match_id AS ref, 1 AS line ${ofMatch}`,
    },
  ]);
}

/** The match of an earlier accept of the same quote by the same requester, as JSON text. */
type ExistingMatchFacts = { readonly existing: string | null };

function existingMatchFacts(userId: string, quoteId: string): Columns<"existing"> {
  return {
    existing: expr`SELECT ${jsonText(jsonObject(matchColumns(uuid(userId))))} FROM matches m
      WHERE m.quote_id = ${uuid(quoteId)} AND m.requester_id = ${uuid(userId)}`,
  };
}

function existingMatch(existing: string | null): Result | undefined {
  if (existing === null) return undefined;
  // Safe cast: the text is a `json_object` of the columns that the row type lists.
  return { ok: true, kind: "match", row: JSON.parse(existing) as MatchRow, replayed: true };
}
