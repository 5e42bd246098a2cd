import { countTraded } from "../auth/exposure.ts";
import { FEES_OWNER, IN_USDC, pairOwner, postTogether } from "../ledger/post.ts";
import { columnsOf, type CommandRow, selectRows } from "../platform/command-rows.ts";
import type { Group } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import {
  atom,
  type Expr,
  expr,
  join,
  mapColumns,
  raw,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import {
  ACCEPT_FIELDS,
  type AcceptField,
  acceptRow,
  FROM_QUOTE,
  wantedQuote,
} from "./accept-command.ts";
import { acceptGuard, whyNotAccepted } from "./accept-preconditions.ts";
import { type Accept, recordNamedBy } from "./command.ts";
import { hexId, type BookOperation } from "./book-operation.ts";
import { quotesOfTripped } from "./protection-record.ts";

/**
 * Accepts a quote: both sides' entries, the match, the quote, the request and the end of every
 * losing quote, or nothing. The maker's side was promised when the quote was placed, so an accept
 * never fails for lack of it. The promise becomes a reserve, from which both sides are settled. The
 * trigger `matches_protection` counts the match and may trip the maker's protection.
 *
 * As quotes are (place-quote.ts), all accepts of a group are carried out by one statement, which
 * inserts rows into `accept_commands`. Its trigger (`accept_commands_accept`) is generated from
 * this file and checks PRECONDITIONS (accept-preconditions.ts).
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
  const row = acceptRow(command, settings, cancelsOthers);
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: { kind: "match", id: matchId },
    names: [recordNamedBy(command).id],
    binding: true,
    ...(cancelsOthers ? { fallback: () => acceptQuote(command, settings, false) } : {}),
    set: { kind: ACCEPTED_QUOTES, row },
    statements: (group) => ACCEPTED_QUOTES.statements(group, [row]),
    result: (effects) => {
      const match = effects.matches.get(hexId(matchId));
      return match && { ok: true, kind: "match", row: match, replayed: false };
    },
    rejection: () => whyNotAccepted(command, row),
  };
}

export const ACCEPTED_QUOTES = {
  statements: (group: Group, rows: readonly CommandRow<AcceptField>[]): readonly Sql[] => {
    const wanted = wantedQuote({ ...columnsOf(ACCEPT_FIELDS, "c"), at: FROM_QUOTE.at });
    const columns = { ...columnsOf(ROW_FIELDS, "c"), ...FROM_QUOTE };
    return [
      sql`INSERT INTO accept_commands (${raw(Object.keys(columns).join(", "))})
        SELECT ${join(Object.values<Expr>(columns), ", ")}
        FROM commit_groups g CROSS JOIN (${selectRows(ACCEPT_FIELDS, rows)}) c
          CROSS JOIN quotes q ON q.quote_id = ${wanted}
        WHERE g.group_id = ${uuid(group.id)}`,
    ];
  },
};

/** Those that only choose the quote are no columns of the table. */
const { quote_id: _, request_id: __, side: ___, price: ____, ...ROW_FIELDS } = ACCEPT_FIELDS;

/** What the trigger of `accept_commands` does with each row that is about to be inserted. */
export function acceptTrigger(): Sql[] {
  return [
    sql`UPDATE quotes SET status = 'accepted', ended_by = ${NEW.match_id},
      ended_group = ${NEW.accepted_group}
      WHERE quote_id = ${NEW.quote_id} AND EXISTS (
        SELECT 1 FROM quote_sides s CROSS JOIN requests r ON r.request_id = s.request_id
        WHERE s.quote_id = ${NEW.quote_id} AND ${acceptGuard(NEW)})`,
    // The command is skipped, and the statement goes on with the next one.
    sql`SELECT RAISE(IGNORE) WHERE changes() <> 1`,
    sql`INSERT INTO matches (match_id, request_id, quote_id, requester_id, maker_id, asset, side,
      amount, price, usdc_amount, taker_fee, maker_fee, at, matched_group, requester_label,
      maker_label, complement)
      VALUES (${NEW.match_id}, ${NEW.request_id}, ${NEW.quote_id}, ${NEW.requester_id},
        ${NEW.maker_id}, ${NEW.asset}, ${NEW.side}, ${NEW.amount}, ${NEW.price},
        ${NEW.usdc_amount}, ${NEW.taker_fee}, ${NEW.maker_fee}, ${NEW.at}, ${NEW.accepted_group},
        (SELECT label FROM requests WHERE request_id = ${NEW.request_id}), ${NEW.maker_label},
        ${NEW.complement})`,
    sql`UPDATE requests SET status = 'matched', ended_by = ${NEW.match_id},
      ended_group = ${NEW.accepted_group}
      WHERE request_id = ${NEW.request_id}`,
    // The losing quotes, and every other quote of a maker whose protection the match tripped.
    sql`UPDATE quotes SET status = iif(expires_at <= ${NEW.at}, 'expired',
          iif(request_id = ${NEW.request_id}, 'rejected', 'cancelled')),
        cancel_reason = iif(expires_at <= ${NEW.at} OR request_id = ${NEW.request_id}, NULL,
          'protection'),
        ended_by = ${NEW.match_id}, ended_group = ${NEW.accepted_group}
      WHERE status = 'open' AND stuck_at IS NULL AND quote_id IN (
        SELECT quote_id FROM quotes WHERE status = 'open' AND request_id = ${NEW.request_id}
        UNION ALL ${quotesOfTripped(NEW)} AND ${NEW.cancels_others})`,
    ...settle(),
    countTraded(givenBySides(), NEW.at),
    // Nothing is stored here. What was done above stays.
    sql`SELECT RAISE(IGNORE)`,
  ];
}

const NEW = {
  ...columnsOf(ACCEPT_FIELDS, "NEW"),
  ...mapColumns(FROM_QUOTE, (name) => atom(`NEW.${name}`)),
};
const REQUESTER_GIVES = expr`iif(${NEW.side} = 'Bid', ${NEW.usdc_amount} + ${NEW.taker_fee},
  ${NEW.amount})`;

/** What each side gave: by user for the account's policy, by key if it has a limit for a day. */
function givenBySides(): Sql {
  const limited = (key: Expr) => expr`EXISTS (SELECT 1 FROM api_keys k
    WHERE k.api_key_id = ${key} AND k.limits ->> 'max_usdc_per_day' IS NOT NULL)`;
  return sql`SELECT ${NEW.maker_id} AS subject, ${NEW.reserve} AS usdc
    UNION ALL SELECT ${NEW.credential}, ${NEW.reserve} WHERE ${limited(NEW.credential)}
    UNION ALL SELECT ${NEW.requester_id}, ${REQUESTER_GIVES}
    UNION ALL SELECT ${NEW.api_key_id}, ${REQUESTER_GIVES} WHERE ${limited(NEW.api_key_id)}`;
}

/**
 * What each side gives or gets in USDC (`pays` or not) for the token, without its fee. The maker's
 * leg carries the quote's id, as the maker's reserve does. So the journal's unique key rejects
 * trading one quote twice. With the pair, the maker's token is the complement.
 */
const SIDES = [
  {
    owner: NEW.requester_id,
    other: NEW.maker_id,
    ref: NEW.match_id,
    fee: NEW.taker_fee,
    feeLine: expr`${NEW.side} = 'Ask'`,
    pays: expr`${NEW.side} = 'Bid'`,
    token: NEW.asset,
    usdc: NEW.usdc_amount,
  },
  {
    owner: NEW.maker_id,
    other: NEW.requester_id,
    ref: NEW.quote_id,
    fee: NEW.maker_fee,
    feeLine: expr`${NEW.side} = 'Bid'`,
    pays: expr`(${NEW.side} = 'Ask') = (${NEW.complement} IS NULL)`,
    token: expr`coalesce(${NEW.complement}, ${NEW.asset})`,
    usdc: expr`iif(${NEW.complement} IS NULL, ${NEW.usdc_amount},
      ${NEW.amount} - ${NEW.usdc_amount})`,
  },
] as const;
/** The house account of the pair, NULL: none takes part. */
const PAIR = pairOwner(NEW.asset, NEW.complement);

const RESERVE = { step: "reserve", from: "available", to: "pending", toExists: true } as const;

/**
 * Both sides' entries. The quote is no longer open, so what it promised can be reserved. Each gives
 * what the other gets, or, if a pair takes part, both give to the pair and get from it.
 */
function settle(): Sql[] {
  const reserve = (owner: Expr, asset: Expr, amount: Expr, ref: Expr) =>
    sql`SELECT ${owner} AS from_owner, ${owner} AS to_owner, ${asset} AS asset,
      ${amount} AS amount, ${ref} AS ref, 0 AS line`;
  const ofSides = (source: (side: (typeof SIDES)[number]) => Sql) =>
    join(SIDES.map(source), " UNION ALL ");
  const given = expr`iif(${NEW.side} = 'Bid', ${IN_USDC}, ${NEW.asset})`;
  return postTogether(NEW, [
    {
      ...RESERVE,
      reason: "reserve_trade",
      source: reserve(NEW.requester_id, given, REQUESTER_GIVES, NEW.match_id),
    },
    {
      ...RESERVE,
      reason: "reserve_rfq",
      source: reserve(NEW.maker_id, NEW.reserve_asset, NEW.reserve, NEW.quote_id),
    },
    // The ledger shows the maker's leg under the match's id.
    {
      reason: "trade",
      step: "end",
      from: "pending",
      to: "each",
      source: ofSides(
        ({ owner, other, ref, pays, token, usdc }) => sql`SELECT ${owner} AS from_owner,
          ifnull(${PAIR}, ${other}) AS to_owner,
          iif(${PAIR} IS NULL, 'available', 'external') AS to_kind,
          iif(${pays}, ${IN_USDC}, ${token}) AS asset, iif(${pays}, ${usdc}, ${NEW.amount}) AS amount,
          ${ref} AS ref, 0 AS line`,
      ),
    },
    {
      reason: "trade",
      step: "credit",
      from: "external",
      to: "available",
      source: ofSides(
        ({ owner, ref, pays, token, usdc }) => sql`SELECT ${PAIR} AS from_owner,
          ${owner} AS to_owner, iif(${pays}, ${token}, ${IN_USDC}) AS asset,
          iif(${pays}, ${NEW.amount}, ${usdc}) AS amount, ${ref} AS ref, 0 AS line
          WHERE ${NEW.complement} IS NOT NULL`,
      ),
    },
    {
      reason: "fee",
      step: "match",
      from: "each",
      to: "fees",
      source: ofSides(
        ({ owner, pays, fee, feeLine }) => sql`SELECT ${owner} AS from_owner,
          ${FEES_OWNER} AS to_owner, iif(${pays}, 'pending', 'available') AS from_kind,
          ${IN_USDC} AS asset, ${fee} AS amount, ${NEW.match_id} AS ref, ${feeLine} AS line`,
      ),
    },
  ]);
}
