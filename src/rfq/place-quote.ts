import { actorRejection, mayWrite } from "../auth/may-write.ts";
import { readAssetKey } from "../assets/asset.ts";
import type { Side } from "../assets/fields.ts";
import { readBalance } from "../ledger/balance.ts";
import { hasAvailable, transfer } from "../ledger/post.ts";
import { NOW } from "../platform/commit.ts";
import { type Config, venueConfig } from "../platform/config.ts";
import { STORAGE_LEFT } from "../platform/storage.ts";
import { first, MAX_NATIVE_UNITS, type Sql, sql, uuid } from "../platform/sql.ts";
import { toHex } from "../assets/amount.ts";
import { type Result, type PlaceQuote, reject } from "./command.ts";
import { keyIsFree, recallResult, rememberResult } from "./idempotency.ts";
import { jsonObject, newQuoteColumns } from "./records.ts";
import { tradeTerms, type TradeTerms } from "./trade-terms.ts";
import { hexId, type Operation } from "./operation.ts";

const ROUTE = "POST /rfq/quote";
/** A request with more open quotes than this is served well enough; it bounds the work of the accept that rejects them. */
const MAX_OPEN_QUOTES_PER_REQUEST = 1_000;
/** Far below it: a worthless quote costs almost nothing, and one maker must not keep the others out with them. */
const MAX_OPEN_QUOTES_PER_MAKER = 50;

/** What never changes in a request, read once and kept by the book. */
export type RequestTerms = { readonly asset: string; readonly amount: string; readonly side: Side };

/** Places a firm quote: the maker's side is set aside in the same operation, so an accepted quote always settles. */
export function placeQuote(
  command: PlaceQuote,
  request: RequestTerms,
  settings: Config,
): Operation {
  const { actor, quoteId, requestId } = command;
  const terms = quoteTerms(command, request, settings);
  return {
    userId: actor.userId,
    statements: (group) => {
      // More than a balance can hold is never available, and must not reach an INTEGER column.
      if (terms.reserve > MAX_NATIVE_UNITS) return [];
      return [
        guard(command, request, terms, settings, group),
        transfer(group, {
          reason: "reserve_rfq",
          step: "reserve",
          from: "available",
          to: "pending",
          source: sql`SELECT q.maker_id AS from_owner, q.maker_id AS to_owner, q.reserve_asset AS asset, q.reserve AS amount,
            q.quote_id AS ref, 0 AS line FROM quotes q WHERE q.quote_id = ${uuid(quoteId)} AND q.opened_group = ${group.seq}`,
        }),
        ...rememberResult({
          group,
          userId: actor.userId,
          route: ROUTE,
          idempotency: command.idempotency,
          result: sql`SELECT ${jsonObject(newQuoteColumns("maker_fee"))} AS result FROM quotes q WHERE q.quote_id = ${uuid(quoteId)}`,
        }),
      ];
    },
    result: (effects) => {
      const row = effects.quotes.get(hexId(quoteId));
      return row === undefined ? undefined : { ok: true, kind: "quote", row, replayed: false };
    },
    explain: (db) => explain(db, command, terms, settings, requestId),
  };
}

function quoteTerms(command: PlaceQuote, request: RequestTerms, settings: Config): TradeTerms {
  const fees = venueConfig(settings, readAssetKey(request.asset)?.venue ?? "");
  return tradeTerms({
    side: request.side,
    asset: request.asset,
    amount: BigInt(request.amount),
    price: BigInt(command.price),
    takerFeeBps: BigInt(fees.taker_fee_bps),
    makerFeeBps: BigInt(fees.maker_fee_bps),
  });
}

function guard(
  command: PlaceQuote,
  request: RequestTerms,
  terms: TradeTerms,
  settings: Config,
  group: { at: Sql; seq: Sql },
): Sql {
  const { actor, quoteId, requestId } = command;
  const venue = readAssetKey(request.asset)?.venue ?? "";
  return sql`INSERT INTO quotes (quote_id, request_id, maker_id, asset, amount, side, price, usdc_amount, taker_fee, maker_fee,
      reserve_asset, reserve, status, opened_at, expires_at, opened_group)
    SELECT ${uuid(quoteId)}, r.request_id, ${uuid(actor.userId)}, r.asset, r.amount, r.side, ${command.price}, ${terms.usdcAmount},
      ${terms.takerFee}, ${terms.makerFee}, ${terms.reserveAsset}, ${terms.reserve}, 'open', ${group.at},
      min(r.expires_at, ${group.at} + ${command.expiresInSecs * 1_000}), ${group.seq}
    FROM requests r
    WHERE r.request_id = ${uuid(requestId)} AND r.status = 'open' AND r.expires_at > ${group.at}
      AND r.requester_id <> ${uuid(actor.userId)}
      AND ${mayWrite(actor, group.at)}
      AND ${STORAGE_LEFT}
      AND NOT EXISTS (SELECT 1 FROM paused_venues WHERE venue = ${venue})
      AND ${openQuotesOf(actor.userId, group.at)} < ${settings.RFQ_OPEN_QUOTES_PER_USER}
      AND ${openQuotesOn(requestId)} < ${MAX_OPEN_QUOTES_PER_REQUEST}
      AND ${openQuotesOn(requestId, actor.userId)} < ${MAX_OPEN_QUOTES_PER_MAKER}
      AND ${hasAvailable(actor.userId, terms.reserveAsset, terms.reserve)}
      AND NOT EXISTS (SELECT 1 FROM quotes WHERE quote_id = ${uuid(quoteId)})
      AND ${keyIsFree(actor.userId, ROUTE, command.idempotency, group.at)}`;
}

async function explain(
  db: D1Database,
  command: PlaceQuote,
  terms: TradeTerms,
  settings: Config,
  requestId: string,
): Promise<Result | undefined> {
  const { actor } = command;
  const denied = await actorRejection(db, actor);
  if (denied !== undefined) return { ok: false, problem: denied };
  const recalled = await recallResult(db, {
    userId: actor.userId,
    route: ROUTE,
    kind: "quote",
    idempotency: command.idempotency,
  });
  if (recalled !== undefined) return recalled;
  const request = await first<{
    own: number;
    status: string;
    expires_at: number;
    now: number;
    venue: string;
    paused: number;
    mine: number;
    all_open: number;
    mine_here: number;
  }>(
    db,
    sql`SELECT r.requester_id = ${uuid(actor.userId)} AS own, r.status, r.expires_at, ${NOW} AS now,
      substr(r.asset, 1, instr(r.asset, ':') - 1) AS venue,
      EXISTS (SELECT 1 FROM paused_venues WHERE venue = substr(r.asset, 1, instr(r.asset, ':') - 1)) AS paused,
      ${openQuotesOf(actor.userId, NOW)} AS mine, ${openQuotesOn(requestId)} AS all_open,
      ${openQuotesOn(requestId, actor.userId)} AS mine_here
      FROM requests r WHERE r.request_id = ${uuid(requestId)}`,
  );
  if (request === undefined) return reject("request_unknown", `There is no request ${requestId}.`);
  if (request.own === 1) return reject("own_request", "You cannot quote your own request.");
  if (
    request.status === "expired" ||
    (request.status === "open" && request.expires_at <= request.now)
  ) {
    return reject("request_expired", `Request ${requestId} has expired.`);
  }
  if (request.status !== "open")
    return reject("request_not_open", `Request ${requestId} is ${request.status}.`);
  if (request.paused === 1) return reject("venue_paused", `${request.venue} is paused.`);
  if (request.mine >= settings.RFQ_OPEN_QUOTES_PER_USER) {
    return reject(
      "open_quote_limit",
      `You have ${settings.RFQ_OPEN_QUOTES_PER_USER} open quotes, which is the limit.`,
    );
  }
  if (request.mine_here >= MAX_OPEN_QUOTES_PER_MAKER) {
    return reject(
      "open_quote_limit",
      `You have ${MAX_OPEN_QUOTES_PER_MAKER} open quotes on this request, which is the limit.`,
    );
  }
  if (request.all_open >= MAX_OPEN_QUOTES_PER_REQUEST) {
    return reject(
      "open_quote_limit",
      `The request has ${MAX_OPEN_QUOTES_PER_REQUEST} open quotes, which is the limit.`,
    );
  }
  const { available } = await readBalance(db, actor.userId, terms.reserveAsset);
  if (available < terms.reserve) return insufficient(terms.reserve, available, terms.reserveAsset);
  return undefined;
}

/** The caller's own numbers only: what the trade needs and what they have. */
export function insufficient(required: bigint, available: bigint, asset: string): Result {
  return reject(
    "insufficient_funds",
    `This needs ${required} units of ${asset}; ${available} are available.`,
    {
      available: toHex(available),
      required: toHex(required),
    },
  );
}

function openQuotesOf(userId: string, at: Sql): Sql {
  return sql`(SELECT count(*) FROM quotes WHERE maker_id = ${uuid(userId)} AND status = 'open' AND expires_at > ${at})`;
}

function openQuotesOn(requestId: string, makerId?: string): Sql {
  const whose = makerId === undefined ? sql`1` : sql`maker_id = ${uuid(makerId)}`;
  return sql`(SELECT count(*) FROM quotes INDEXED BY quotes_open_request WHERE request_id = ${uuid(requestId)} AND status = 'open' AND ${whose})`;
}
