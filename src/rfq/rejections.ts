/** Rejections and preconditions that several verbs share. */
import { venueOf } from "../platform/venues.ts";
import { toHex } from "../assets/amount.ts";
import type { RequestSide, Side } from "../assets/asset-fields.ts";
import { type ActorFacts, actorRejectionOf, mayWrite } from "../auth/may-write.ts";
import type { Actor } from "../platform/actor.ts";
import type { Precondition } from "../platform/preconditions.ts";
import type { Config } from "../platform/config.ts";
import { deadlinePassed, type InstantFact } from "../platform/deadline.ts";
import { type ProblemData, unavailable } from "../platform/problem.ts";
import { type Columns, type Expr, expr, literal, readUuid } from "../platform/sql.ts";
import { STORAGE_LEFT, storageFull } from "../platform/storage.ts";
import { ID_LEAD_MS, MAX_CLOCK_LEAD_MS, toWireTime } from "../platform/time.ts";
import { refused, reject, type Result, type Sent } from "./command.ts";
import type { QuoteStatus } from "./statuses.ts";

export function actorMayWrite(actor: Actor, at: Expr): Precondition<ActorFacts, Result> {
  return {
    expr: mayWrite(actor, at),
    reject: (facts) => actorRejected(actor, facts),
  };
}

/** Undefined if the actor may write meanwhile. */
export function actorRejected(actor: Actor, facts: ActorFacts): Result | undefined {
  const problem = actorRejectionOf(actor, facts);
  return problem && refused(problem);
}

/** A batch that hung until later carries nothing out, and neither does one whose clock is wrong. */
export function commitBefore(
  receivedAt: number,
  settings: Pick<Config, "RFQ_COMMAND_MAX_WAIT_MS">,
): number {
  return receivedAt + settings.RFQ_COMMAND_MAX_WAIT_MS + MAX_CLOCK_LEAD_MS;
}

/**
 * Condition: the command was received recently enough. The id of what is made was made with the
 * instant of its receipt, so that the archive finds it by its time.
 */
export function rowInTime(c: Columns<"at" | "received_at" | "commit_before">): Expr {
  return expr`${c.at} BETWEEN ${c.received_at} - ${literal(ID_LEAD_MS)} AND ${c.commit_before}`;
}

/** The same as a precondition of a verb whose guard has parameters. */
export function inTime(
  { receivedAt }: Pick<Sent, "receivedAt">,
  at: Expr,
  settings: Pick<Config, "RFQ_COMMAND_MAX_WAIT_MS">,
): Precondition<InstantFact, Result> {
  const latest = commitBefore(receivedAt, settings);
  return {
    expr: rowInTime({ at, received_at: expr`${receivedAt}`, commit_before: expr`${latest}` }),
    reject: (facts) => notInTime(facts, receivedAt),
  };
}

/** Condition: the client's deadline has not passed. */
export function rowBeforeDeadline(c: Columns<"at" | "not_after">): Expr {
  return expr`${c.not_after} IS NULL OR ${c.at} < ${c.not_after}`;
}

/** `notAfter` is the deadline that has passed. */
export function afterDeadline({ instant }: InstantFact, notAfter = instant): Result {
  const detail = `The command was not carried out before ${toWireTime(notAfter)}.`;
  return refused(deadlinePassed(instant, detail));
}

export function notInTime({ instant }: InstantFact, receivedAt: number): Result {
  const why =
    instant < receivedAt - ID_LEAD_MS
      ? "The clock that received the command is ahead. Try again."
      : "The command took too long and was not carried out.";
  return refused(unavailable("none", why));
}

export const storageLeft: Precondition<unknown, Result> = {
  expr: STORAGE_LEFT,
  reject: () => refused(storageFull()),
};

/** `where` is what the limit counts commands of, such as `this book`. */
export function tooManyInFlight(limit: number, where: string): ProblemData {
  return {
    code: "rate_limited",
    detail:
      `You have reached the limit of ${limit} unanswered commands on ${where}. ` +
      "Wait for a response before you send more.",
    retryAfterSecs: 1,
  };
}

/** `asset` is the key of the traded asset. An asset that is not listed has no market to close. */
export function marketOpen(asset: Expr, at: Expr): Precondition<unknown, Result> {
  return {
    expr: expr`NOT EXISTS (SELECT 1 FROM markets k WHERE k.asset = ${asset}
      AND (k.closed_at IS NOT NULL OR k.closes_at <= ${at}))`,
    reject: marketClosed,
  };
}

export function marketClosed(): Result {
  return reject("market_closed", "The market is closed.");
}

/** Holds unless only listed assets are traded and this one is not listed. */
export function marketListed(
  asset: string,
  { RFQ_LISTED_ONLY: only }: Pick<Config, "RFQ_LISTED_ONLY">,
): Precondition<unknown, Result>[] {
  if (only === "off") return [];
  return [
    {
      expr: expr`EXISTS (SELECT 1 FROM markets WHERE asset = ${asset})`,
      reject: () =>
        reject("market_unknown", `${asset} is not listed. GET /markets lists the markets.`),
    },
  ];
}

/** Over `requests r`. */
export const REQUEST_VENUE = venueOf("r.asset");

export function sideMismatch(
  of: RequestSide,
  { requestId, side }: { readonly requestId: string; readonly side: Side | null },
): Result {
  const why =
    side === null
      ? `Request ${requestId} is two-way, so name a side.`
      : `Request ${requestId} is for ${of}, not ${side}.`;
  return reject("side_mismatch", why);
}

export function venuePaused(venue: string): Result {
  return reject("venue_paused", `${venue} is paused.`);
}

/** Names the caller's own numbers only: what the trade needs and what they have. */
export function insufficientFunds(
  required: bigint,
  available: bigint,
  asset: string,
  usdcReserve?: bigint,
): Result {
  const needs = `This needs ${required} units of ${asset}; ${available} are available.`;
  const facts = { available: toHex(available), required: toHex(required) };
  if (usdcReserve === undefined) return reject("insufficient_funds", needs, facts);
  return reject(
    "insufficient_funds",
    `${needs} With backing usdc it would reserve ${usdcReserve} units of USDC.`,
    { ...facts, usdc_reserve: toHex(usdcReserve) },
  );
}

export function quoteNotOpen(quoteId: string, status: QuoteStatus, matchId: string | null): Result {
  return reject("quote_not_open", `Quote ${quoteId} is ${status}.`, {
    quote_status: status,
    ...(matchId === null ? {} : { match_id: readUuid(matchId) }),
  });
}

export function requestMatched(requestId: string, matchId: string | null): Result {
  return reject(
    "request_not_open",
    `Request ${requestId} is matched.`,
    matchId === null ? {} : { match_id: readUuid(matchId) },
  );
}

/** Over `requests r`, which is not matched. */
export const requestOpen: readonly {
  readonly expr: (at: Expr) => Expr;
  readonly reject: (requestId: string) => Result;
}[] = [
  {
    expr: () => expr`r.status <> 'cancelled'`,
    reject: (id) => reject("request_not_open", `Request ${id} is cancelled.`),
  },
  {
    expr: (at) => expr`r.status = 'open' AND r.expires_at > ${at}`,
    reject: (id) => reject("request_expired", `Request ${id} has expired.`),
  },
];

export function cancelled(id: string, { replayed }: { replayed: boolean }): Result {
  return { ok: true, kind: "cancelled", id, replayed };
}
