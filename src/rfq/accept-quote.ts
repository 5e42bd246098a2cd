import { USDC } from "../assets/asset.ts";
import { countTraded } from "../auth/exposure.ts";
import { FEES_OWNER, type Posting, postTogether } from "../ledger/post.ts";
import type { Group } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { guardOf } from "../platform/preconditions.ts";
import { atom, type Expr, join, raw, type Sql, sql, uuid } from "../platform/sql.ts";
import { acceptPreconditions, wantedQuote, whyNotAccepted } from "./accept-preconditions.ts";
import { type Accept, recordNamedBy } from "./command.ts";
import { hexId, type BookOperation } from "./book-operation.ts";
import { quotesOfTripped } from "./protection-record.ts";
import { endedBy } from "./ended.ts";

/**
 * Accepts a quote: both sides' entries, the match, the quote, the request and the end of every
 * losing quote, or nothing. The maker's side was promised when the quote was placed, so an accept
 * never fails for lack of it. The promise becomes a reserve, from which both sides are settled. The
 * trigger `matches_protection` counts the match and may trip the maker's protection.
 *
 * A damaged quote in another book must not make it fail either. So if a constraint refuses it, it
 * is tried again without the cancels of the maker's protection, which cron repeats (protection.ts).
 */
export function acceptQuote(
  command: Accept,
  settings: Config,
  cancelsOthers = true,
): BookOperation {
  const { actor, matchId } = command;
  const key = actor.credential.kind === "session" ? null : uuid(actor.credential.apiKeyId);
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: { kind: "match", id: matchId },
    names: [recordNamedBy(command).id],
    binding: true,
    ...(cancelsOthers ? { fallback: () => acceptQuote(command, settings, false) } : {}),
    statements: (group) =>
      acceptStatements(group, {
        matchId,
        quote: wantedQuote(command, group.at),
        guard: guardOf(acceptPreconditions(command, settings, atom("g.at"))),
        key,
        cancelsOthers,
      }),
    result: (effects) => {
      const row = effects.matches.get(hexId(matchId));
      return row === undefined ? undefined : { ok: true, kind: "match", row, replayed: false };
    },
    rejection: () => whyNotAccepted(command, settings),
  };
}

type Taking = {
  readonly matchId: string;
  readonly quote: Expr;
  /** Over `commit_groups g`, `quote_sides s` and `requests r`. */
  readonly guard: Expr;
  /** The key whose limits count the match. Null: the credential is a session. */
  readonly key: Expr | null;
  readonly cancelsOthers: boolean;
};

/** Accepts one quote, if the guard holds. */
export function acceptStatements(group: Group, taking: Taking): Sql[] {
  const { matchId, quote, guard, key, cancelsOthers } = taking;
  const ofMatch = sql`SELECT request_id FROM matches WHERE match_id = ${uuid(matchId)}`;
  return [
    sql`UPDATE quotes SET status = 'accepted', ended_by = ${uuid(matchId)},
      ended_group = ${group.seq}
      WHERE quote_id = ${quote} AND EXISTS (
        SELECT 1 FROM commit_groups g CROSS JOIN quote_sides s
          CROSS JOIN requests r ON r.request_id = s.request_id
        WHERE g.group_id = ${uuid(group.id)} AND s.quote_id = quotes.quote_id AND ${guard})`,
    sql`INSERT INTO matches (match_id, request_id, quote_id, requester_id, maker_id, asset, side,
      amount, price, usdc_amount, taker_fee, maker_fee, at, matched_group, requester_label,
      maker_label, complement)
      SELECT ${uuid(matchId)}, q.request_id, q.quote_id, r.requester_id, q.maker_id, q.asset,
        q.side, CAST(q.amount AS INTEGER), q.price, q.usdc_amount, q.taker_fee, q.maker_fee,
        ${group.at}, ${group.seq}, r.label, q.label, q.complement
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
    countTraded(givenBySides(group, matchId, key), group.at),
  ];
}

/** What each side gave: by user for the account's policy, by key if it has a limit for a day. */
function givenBySides(group: Group, matchId: string, key: Expr | null): Sql {
  const accepted = sql`${endedBy(group, matchId, "q")} AND q.status = 'accepted'`;
  const ofMatch = sql`m.match_id = ${uuid(matchId)}`;
  const requesterGave = raw("iif(m.side = 'Bid', m.usdc_amount + m.taker_fee, m.amount)");
  const limited = raw("k.limits ->> 'max_usdc_per_day' IS NOT NULL");
  const sides = [
    sql`SELECT q.maker_id AS subject, q.reserve AS usdc FROM quotes q WHERE ${accepted}`,
    sql`SELECT k.api_key_id, q.reserve FROM quotes q
      JOIN api_keys k ON k.api_key_id = q.credential WHERE ${accepted} AND ${limited}`,
    sql`SELECT m.requester_id, ${requesterGave} FROM matches m WHERE ${ofMatch}`,
    ...(key === null
      ? []
      : [
          sql`SELECT k.api_key_id, ${requesterGave} FROM matches m
            JOIN api_keys k ON k.api_key_id = ${key}
            WHERE ${ofMatch} AND ${limited}`,
        ]),
  ];
  return join(sides, " UNION ALL ");
}

const RESERVE = { step: "reserve", from: "available", to: "pending", toExists: true } as const;

/**
 * Both sides' entries. The quote is no longer open, so what it promised can be reserved. Each gives
 * what the other gets, or, if a pair takes part, both give to the pair and get from it.
 */
function settle(group: Group, matchId: string): Sql[] {
  // Once for both statements, because each use would compute the view again.
  const sides = sql`WITH sides AS MATERIALIZED (SELECT * FROM match_sides
    WHERE match_id = ${uuid(matchId)})`;
  const postings: readonly Posting[] = [
    {
      ...RESERVE,
      reason: "reserve_trade",
      source: sql`SELECT m.owner_id AS from_owner, m.owner_id AS to_owner, m.given_asset AS asset,
        m.given + iif(m.given_asset = ${USDC}, m.fee, 0) AS amount, m.ref, 0 AS line FROM sides m WHERE m.ref = m.match_id`,
    },
    {
      ...RESERVE,
      reason: "reserve_rfq",
      source: sql`SELECT q.maker_id AS from_owner, q.maker_id AS to_owner, q.reserve_asset AS asset,
        q.reserve AS amount, q.quote_id AS ref, 0 AS line
        FROM quotes q WHERE ${endedBy(group, matchId, "q")} AND q.status = 'accepted'`,
    },
    // The ledger shows the maker's leg under the match's id.
    {
      reason: "trade",
      step: "end",
      from: "pending",
      to: "each",
      source: sql`SELECT m.owner_id AS from_owner, ifnull(m.pair, m.other_id) AS to_owner,
        iif(m.pair IS NULL, 'available', 'external') AS to_kind, m.given_asset AS asset,
        m.given AS amount, m.ref, 0 AS line FROM sides m`,
    },
    {
      reason: "trade",
      step: "credit",
      from: "external",
      to: "available",
      source: sql`SELECT m.pair AS from_owner, m.owner_id AS to_owner, m.got_asset AS asset,
        m.got AS amount, m.ref, 0 AS line FROM sides m WHERE m.pair IS NOT NULL`,
    },
    {
      reason: "fee",
      step: "match",
      from: "each",
      to: "fees",
      source: sql`SELECT m.owner_id AS from_owner, ${FEES_OWNER} AS to_owner,
        iif(m.given_asset = ${USDC}, 'pending', 'available') AS from_kind, ${USDC} AS asset,
        m.fee AS amount, m.match_id AS ref, m.fee_line AS line FROM sides m`,
    },
  ];
  return postTogether(group, postings, sides);
}
