import { readAssetKey } from "../assets/asset.ts";
import { availableText, hasAvailable, transfer } from "../ledger/post.ts";
import { type Group, NOW } from "../platform/commit.ts";
import { type Config, venueConfig } from "../platform/config.ts";
import { beforeDeadline, deadlinePassed, type InstantFact } from "../platform/deadline.ts";
import { guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import {
  atom,
  type Expr,
  expr,
  MAX_NATIVE_UNITS,
  type Sql,
  sql,
  TRUE,
  uuid,
} from "../platform/sql.ts";
import { type PlaceQuote, reject, type Result } from "./command.ts";
import {
  type EarlierFacts,
  earlierFacts,
  type KeyUse,
  keyIsUnused,
  rememberKey,
} from "./idempotency.ts";
import { hexId, type Operation } from "./operation.ts";
import type { RequestStatus } from "./tables.ts";
import type { RequestTerms } from "./request-terms.ts";
import { tradeTerms, type TradeTerms } from "./trade-terms.ts";
import { actorFacts, type ActorFacts, credentialOf } from "../auth/may-write.ts";
import {
  actorMayWrite,
  insufficientFunds,
  inTime,
  late,
  storageLeft,
  venuePaused,
} from "./rejections.ts";

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

/**
 * Places a firm quote. The maker's side is reserved in the same operation, so an accepted quote
 * always settles.
 */
export function placeQuote(
  command: PlaceQuote,
  request: RequestTerms,
  settings: Config,
): Operation {
  const { actor, quoteId, requestId } = command;
  const terms = quoteTerms(command, request, settings);
  const checks = (at: Expr) => preconditions(command, { request, terms, settings, at });
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    binding: true,
    statements: (group) => {
      // More than a balance can hold is never available, and an INTEGER column cannot hold it.
      if (terms.reserve > MAX_NATIVE_UNITS) return [];
      return [
        insertQuote(command, terms, group, guardOf(checks(group.at))),
        transfer(group, {
          reason: "reserve_rfq",
          step: "reserve",
          from: "available",
          to: "pending",
          source: sql`SELECT q.maker_id AS from_owner, q.maker_id AS to_owner,
            q.reserve_asset AS asset,
            q.reserve AS amount, q.quote_id AS ref, 0 AS line
            FROM quotes q WHERE q.quote_id = ${uuid(quoteId)} AND q.opened_group = ${group.seq}`,
        }),
        ...rememberKey({
          group,
          ...keyUse(command),
          record: sql`SELECT quote_id AS id FROM quotes WHERE quote_id = ${uuid(quoteId)}`,
        }),
      ];
    },
    result: (effects) => {
      const row = effects.quotes.get(hexId(quoteId));
      return row === undefined ? undefined : { ok: true, kind: "quote", row, replayed: false };
    },
    rejection: () =>
      questionOf({
        preconditions: checks(NOW),
        facts: {
          instant: NOW,
          status: expr`iif(r.status = 'open' AND r.expires_at <= ${NOW}, 'expired', r.status)`,
          available: availableText(actor.userId, atom("?", [terms.reserveAsset])),
        },
        apart: { ...actorFacts(actor), ...earlierFacts(keyUse(command)) },
        from: sql`FROM requests r WHERE r.request_id = ${uuid(requestId)}`,
        missing: () => reject("request_unknown", `There is no request ${requestId}.`),
      }),
  };
}

function quoteTerms(command: PlaceQuote, request: RequestTerms, settings: Config): TradeTerms {
  const fees = venueConfig(settings, venueOf(request));
  return tradeTerms({
    side: request.side,
    asset: request.asset,
    amount: request.amount,
    price: BigInt(command.price),
    takerFeeBps: BigInt(fees.taker_fee_bps),
    makerFeeBps: BigInt(fees.maker_fee_bps),
  });
}

function insertQuote(command: PlaceQuote, terms: TradeTerms, group: Group, guard: Expr): Sql {
  const { actor, quoteId, requestId } = command;
  return sql`INSERT INTO quotes (quote_id, request_id, maker_id, credential, asset, amount,
    side, price,
    usdc_amount, taker_fee,
      maker_fee, reserve_asset, reserve, status, opened_at, expires_at, opened_group, label)
    SELECT ${uuid(quoteId)}, r.request_id, ${uuid(actor.userId)}, ${credentialOf(actor)},
      r.asset, r.amount, r.side,
      ${command.price},
      ${terms.usdcAmount}, ${terms.takerFee}, ${terms.makerFee}, ${terms.reserveAsset}, ${terms.reserve}, 'open',
      ${group.at}, min(r.expires_at, min(${group.at}, ${command.receivedAt}) + ${lifeMs(command)}), ${group.seq},
      ${command.label}
    FROM requests r WHERE r.request_id = ${uuid(requestId)} AND ${guard}`;
}

/**
 * A quote's life counts from when the service received it, so that a delay shortens the time for
 * which the maker is bound.
 */
function lifeMs({ expiresInSecs }: PlaceQuote): number {
  return expiresInSecs * 1_000;
}

type Facts = InstantFact & {
  /** The request's, as readers see it: an open one past its time is expired. */
  readonly status: RequestStatus;
  readonly available: string;
};

type Given = {
  readonly request: RequestTerms;
  readonly terms: TradeTerms;
  readonly settings: Config;
  readonly at: Expr;
};

/** Over `requests r`. */
function preconditions(
  command: PlaceQuote,
  { request, terms, settings, at }: Given,
): readonly Precondition<Facts & ActorFacts & EarlierFacts, Result>[] {
  const { actor, quoteId, requestId } = command;
  const venue = venueOf(request);
  const perUser = settings.RFQ_OPEN_QUOTES_PER_USER;
  return [
    actorMayWrite(actor, at),
    ...keyIsUnused(keyUse(command), at),
    ...beforeDeadline(at, command.notAfter, late),
    {
      expr: expr`${at} < ${command.receivedAt + lifeMs(command)}`,
      reject: ({ instant }) =>
        late(deadlinePassed(instant, "The quote had expired before it could be placed.")),
    },
    inTime(command, at, settings),
    {
      expr: expr`r.requester_id <> ${uuid(actor.userId)}`,
      reject: () => reject("own_request", "You cannot quote your own request."),
    },
    {
      expr: expr`r.status = 'open' AND r.expires_at > ${at}`,
      reject: ({ status }) =>
        status === "expired"
          ? reject("request_expired", `Request ${requestId} has expired.`)
          : reject("request_not_open", `Request ${requestId} is ${status}.`),
    },
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM paused_venues WHERE venue = ${venue})`,
      reject: () => venuePaused(venue),
    },
    storageLeft,
    {
      expr: expr`${openQuotesOf(actor.userId, at)} < ${perUser}`,
      reject: () =>
        reject("open_quote_limit", `You have reached the limit of ${perUser} open quotes.`),
    },
    {
      expr: expr`${openQuotesOn(requestId, actor.userId)} < ${MAX_OPEN_QUOTES_PER_MAKER}`,
      reject: () =>
        reject(
          "open_quote_limit",
          `You have reached the limit of ${MAX_OPEN_QUOTES_PER_MAKER} open quotes on one request.`,
        ),
    },
    {
      expr: expr`${openQuotesOn(requestId)} < ${MAX_OPEN_QUOTES_PER_REQUEST}`,
      reject: () =>
        reject(
          "open_quote_limit",
          `The request has reached the limit of ${MAX_OPEN_QUOTES_PER_REQUEST} open quotes.`,
        ),
    },
    {
      expr: hasAvailable(actor.userId, terms.reserveAsset, terms.reserve),
      reject: ({ available }) =>
        insufficientFunds(terms.reserve, BigInt(available), terms.reserveAsset),
    },
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM quotes WHERE quote_id = ${uuid(quoteId)})`,
      reject: () => undefined,
    },
  ];
}

function keyUse({ actor, idempotency }: PlaceQuote): KeyUse {
  return { userId: actor.userId, route: ROUTE, kind: "quote", idempotency };
}

function venueOf(request: RequestTerms): string {
  return readAssetKey(request.asset)?.venue ?? "";
}

function openQuotesOf(userId: string, at: Expr): Expr {
  return expr`SELECT count(*) FROM quotes
    WHERE maker_id = ${uuid(userId)} AND status = 'open' AND expires_at > ${at}`;
}

function openQuotesOn(requestId: string, makerId?: string): Expr {
  const whose = makerId === undefined ? TRUE : expr`maker_id = ${uuid(makerId)}`;
  return expr`SELECT count(*) FROM quotes INDEXED BY quotes_open_request
    WHERE request_id = ${uuid(requestId)} AND status = 'open' AND ${whose}`;
}
