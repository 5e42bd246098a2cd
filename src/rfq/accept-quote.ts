import { actorRejection, mayWrite } from "../auth/may-write.ts";
import { USDC } from "../assets/asset.ts";
import { FEES_OWNER, post, transfer } from "../ledger/post.ts";
import { type Group, NOW } from "../platform/commit.ts";
import { first, MAX_NATIVE_UNITS, raw, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { type AcceptQuote, type Result, reject } from "./command.ts";
import { insufficient } from "./place-quote.ts";
import { type MatchRow, matchColumns, select } from "./records.ts";
import { endedAs, releaseQuotesEndedBy } from "./release.ts";
import { hexId, type Operation } from "./operation.ts";

/**
 * Accepts a quote: both sides' entries, the match, the quote, the request and the release of every losing quote, or
 * nothing. The maker's side was set aside when the quote was placed, so this never fails for the maker's sake.
 */
export function acceptQuote(command: AcceptQuote): Operation {
  const { actor, matchId } = command;
  return {
    userId: actor.userId,
    statements: (group) => [
      guard(command, group),
      sql`INSERT INTO matches (match_id, request_id, quote_id, requester_id, maker_id, asset, side, amount, price, usdc_amount,
          taker_fee, maker_fee, at, matched_group)
        SELECT ${uuid(matchId)}, q.request_id, q.quote_id, ${uuid(actor.userId)}, q.maker_id, q.asset, q.side,
          CAST(q.amount AS INTEGER), q.price, q.usdc_amount, q.taker_fee, q.maker_fee, ${group.at}, ${group.seq}
        FROM quotes q WHERE q.ended_by = ${uuid(matchId)} AND q.status = 'accepted'`,
      sql`UPDATE requests SET status = 'matched', ended_by = ${uuid(matchId)}, ended_group = ${group.seq}
        WHERE request_id = (SELECT request_id FROM matches WHERE match_id = ${uuid(matchId)})`,
      sql`UPDATE quotes SET status = ${endedAs("rejected", group)}, ended_by = ${uuid(matchId)}, ended_group = ${group.seq}
        WHERE status = 'open' AND request_id = (SELECT request_id FROM matches WHERE match_id = ${uuid(matchId)})`,
      ...settle(group, matchId),
      releaseQuotesEndedBy(group, matchId),
    ],
    result: (effects) => {
      const row = effects.matches.get(hexId(matchId));
      return row === undefined ? undefined : { ok: true, kind: "match", row, replayed: false };
    },
    explain: (db) => explain(db, command),
  };
}

/** What the requester delivers: USDC with their fee for a Bid, the asset for an Ask (an `amount` above 2^62 is never held). */
const GIVEN_ASSET = raw(`iif(quotes.side = 'Bid', '${USDC}', quotes.asset)`);
const GIVEN_AMOUNT = raw(
  "iif(quotes.side = 'Bid', quotes.usdc_amount + quotes.taker_fee, CAST(quotes.amount AS INTEGER))",
);

function guard({ actor, matchId, quoteId }: AcceptQuote, group: Group): Sql {
  return sql`UPDATE quotes SET status = 'accepted', ended_by = ${uuid(matchId)}, ended_group = ${group.seq}
    WHERE quote_id = ${uuid(quoteId)} AND status = 'open' AND expires_at > ${group.at}
      AND EXISTS (SELECT 1 FROM requests r WHERE r.request_id = quotes.request_id AND r.status = 'open'
        AND r.expires_at > ${group.at} AND r.requester_id = ${uuid(actor.userId)})
      AND ${mayWrite(actor, group.at)}
      AND NOT EXISTS (SELECT 1 FROM paused_venues WHERE venue = substr(quotes.asset, 1, instr(quotes.asset, ':') - 1))
      AND EXISTS (SELECT 1 FROM accounts a WHERE a.owner = ${uuid(actor.userId)} AND a.asset = ${GIVEN_ASSET}
        AND a.kind = 'available' AND a.balance >= ${GIVEN_AMOUNT})
      AND ${receiptsFit(actor.userId)}`;
}

/** Condition: what each side and the house receive stays within what a balance can hold. */
function receiptsFit(requesterId: string): Sql {
  const requester = uuid(requesterId);
  return sql`${fits(sql`iif(quotes.side = 'Bid', quotes.maker_id, ${requester})`, USDC_KEY, raw("quotes.usdc_amount"))}
    AND ${fits(sql`iif(quotes.side = 'Bid', ${requester}, quotes.maker_id)`, raw("quotes.asset"), raw("CAST(quotes.amount AS INTEGER)"))}
    AND ${fits(FEES_OWNER, USDC_KEY, raw("quotes.taker_fee + quotes.maker_fee"))}`;
}

const USDC_KEY = sql`${USDC}`;

/**
 * Condition: everything the owner holds of the asset, plus what comes, stays within what a balance can hold. Both
 * sub-accounts count, so that a later release always fits too.
 */
function fits(owner: Sql, asset: Sql, amount: Sql): Sql {
  return sql`coalesce((SELECT sum(a.balance) FROM accounts a WHERE a.owner = ${owner} AND a.asset = ${asset}), 0)
    <= ${MAX_NATIVE_UNITS} - ${amount}`;
}

function settle(group: Group, matchId: string): Sql[] {
  const ofMatch = sql`FROM matches m WHERE m.match_id = ${uuid(matchId)}`;
  const buyer = raw("iif(m.side = 'Bid', m.requester_id, m.maker_id)");
  const seller = raw("iif(m.side = 'Bid', m.maker_id, m.requester_id)");
  const sellerFee = raw("iif(m.side = 'Bid', m.maker_fee, m.taker_fee)");
  const buyerFee = raw("iif(m.side = 'Bid', m.taker_fee, m.maker_fee)");
  return [
    transfer(group, {
      reason: "reserve_trade",
      step: "reserve",
      from: "available",
      to: "pending",
      source: sql`SELECT m.requester_id AS from_owner, m.requester_id AS to_owner, iif(m.side = 'Bid', ${USDC}, m.asset) AS asset,
        iif(m.side = 'Bid', m.usdc_amount + m.taker_fee, m.amount) AS amount, m.match_id AS ref, 0 AS line ${ofMatch}`,
    }),
    // The maker's leg carries the quote's id and the step `end`, which a release of that quote would carry too: the
    // journal itself refuses to resolve one reserve twice. The history shows the match's id for it.
    ...post(group, {
      reason: "trade",
      step: "end",
      from: "pending",
      to: "available",
      source: sql`SELECT ${buyer} AS from_owner, ${seller} AS to_owner, ${USDC} AS asset, m.usdc_amount AS amount,
          iif(m.side = 'Bid', m.match_id, m.quote_id) AS ref, 0 AS line ${ofMatch}
        UNION ALL
        SELECT ${seller}, ${buyer}, m.asset, m.amount, iif(m.side = 'Bid', m.quote_id, m.match_id), 0 ${ofMatch}`,
    }),
    ...post(group, {
      reason: "fee",
      step: "match",
      from: "pending",
      to: "fees",
      source: sql`SELECT ${buyer} AS from_owner, ${FEES_OWNER} AS to_owner, ${USDC} AS asset, ${buyerFee} AS amount,
        m.match_id AS ref, 0 AS line ${ofMatch}`,
    }),
    ...post(group, {
      reason: "fee",
      step: "match",
      from: "available",
      to: "fees",
      source: sql`SELECT ${seller} AS from_owner, ${FEES_OWNER} AS to_owner, ${USDC} AS asset, ${sellerFee} AS amount,
        m.match_id AS ref, 1 AS line ${ofMatch}`,
    }),
  ];
}

type AcceptState = {
  readonly own: number;
  readonly quote_status: string;
  readonly request_status: string;
  readonly expires_at: number;
  readonly now: number;
  readonly paused: number;
  readonly given_asset: string;
  readonly given_amount: string;
  readonly available: string;
  readonly receipts_fit: number;
};

async function explain(
  db: D1Database,
  { actor, quoteId }: AcceptQuote,
): Promise<Result | undefined> {
  const denied = await actorRejection(db, actor);
  if (denied !== undefined) return { ok: false, problem: denied };
  const status = await acceptState(db, actor.userId, quoteId);
  if (status === undefined)
    return (
      (await existingMatch(db, actor.userId, quoteId)) ??
      reject("quote_unknown", `There is no quote ${quoteId}.`)
    );
  if (status.own !== 1)
    return reject("not_request_owner", "Only the requester may accept a quote.");
  if (status.quote_status === "accepted") return existingMatch(db, actor.userId, quoteId);
  if (status.quote_status === "cancelled" || status.quote_status === "rejected")
    return notOpen(db, status, quoteId);
  if (status.request_status === "cancelled" || status.request_status === "matched") {
    return reject("request_not_open", `The request is ${status.request_status}.`);
  }
  if (status.quote_status === "expired" || status.expires_at <= status.now) {
    return reject("quote_expired", `Quote ${quoteId} expired at ${toWireTime(status.expires_at)}.`);
  }
  if (status.paused === 1) return reject("venue_paused", "The venue is paused.");
  const required = BigInt(status.given_amount);
  const available = BigInt(status.available);
  if (available < required) return insufficient(required, available, status.given_asset);
  if (status.receipts_fit === 0)
    return reject("balance_limit", "A balance would pass 2^62 native units.");
  // Whatever stood in the way is gone: the operation runs again.
  return undefined;
}

async function notOpen(db: D1Database, status: AcceptState, quoteId: string): Promise<Result> {
  const match = await first<{ match_id: string }>(
    db,
    sql`SELECT hex(m.match_id) AS match_id FROM matches m JOIN quotes q ON q.request_id = m.request_id WHERE q.quote_id = ${uuid(quoteId)}`,
  );
  return reject("quote_not_open", `Quote ${quoteId} is ${status.quote_status}.`, {
    quote_status: status.quote_status,
    ...(match === undefined ? {} : { match_id: readUuid(match.match_id) }),
  });
}

async function existingMatch(
  db: D1Database,
  userId: string,
  quoteId: string,
): Promise<Result | undefined> {
  const row = await first<MatchRow>(
    db,
    sql`SELECT ${select(matchColumns(uuid(userId)))} FROM matches m
      WHERE m.quote_id = ${uuid(quoteId)} AND m.requester_id = ${uuid(userId)}`,
  );
  return row === undefined ? undefined : { ok: true, kind: "match", row, replayed: true };
}

function acceptState(
  db: D1Database,
  userId: string,
  quoteId: string,
): Promise<AcceptState | undefined> {
  return first<AcceptState>(
    db,
    sql`SELECT r.requester_id = ${uuid(userId)} AS own, quotes.status AS quote_status, r.status AS request_status, quotes.expires_at,
      ${NOW} AS now, EXISTS (SELECT 1 FROM paused_venues WHERE venue = substr(quotes.asset, 1, instr(quotes.asset, ':') - 1)) AS paused,
      ${GIVEN_ASSET} AS given_asset,
      iif(quotes.side = 'Bid', CAST(quotes.usdc_amount + quotes.taker_fee AS TEXT), quotes.amount) AS given_amount,
      coalesce((SELECT CAST(a.balance AS TEXT) FROM accounts a WHERE a.owner = ${uuid(userId)} AND a.asset = ${GIVEN_ASSET}
        AND a.kind = 'available'), '0') AS available,
      (${receiptsFit(userId)}) AS receipts_fit
      FROM quotes JOIN requests r ON r.request_id = quotes.request_id WHERE quotes.quote_id = ${uuid(quoteId)}`,
  );
}
