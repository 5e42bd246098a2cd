import { readAssetKey } from "../assets/asset.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { beforeDeadline, type InstantFact } from "../platform/deadline.ts";
import {
  belowDailyLimit,
  countDaily,
  dailyLimitProblem,
  dailyUse,
} from "../platform/daily-limit.ts";
import { guardOf, type Precondition, questionOf } from "../platform/preconditions.ts";
import { atom, type Expr, expr, FALSE, sql, TRUE, uuid } from "../platform/sql.ts";
import { toHex } from "../assets/amount.ts";
import { type OpenRequest, refused, reject, type Result } from "./command.ts";
import { type EarlierFacts, earlierFacts, keyIsUnused, keyRow } from "./idempotency.ts";
import { saveWithRequest } from "./standing-accept.ts";
import { hexId, type BookOperation } from "./book-operation.ts";
import { actorFacts, type ActorFacts } from "../auth/may-write.ts";
import {
  actorMayWrite,
  inTime,
  marketListed,
  marketOpen,
  storageLeft,
  venuePaused,
} from "./rejections.ts";
import { limitFacts, type LimitFacts, traderOf, withinLimits } from "./trade-limits.ts";

/** Opens a request. It reserves nothing, because an accept takes the requester's funds. */
export function openRequest(command: OpenRequest, settings: Config): BookOperation {
  const { actor, requestId, asset } = command;
  const key = keyRow(command);
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: { kind: "request", id: requestId },
    names: [],
    statements: (group) => [
      sql`INSERT INTO requests (request_id, requester_id, asset, amount, usdc_amount, side,
          disclosed, status, opened_at, expires_at, opened_group, label, key_hash, terms_hash)
        SELECT ${uuid(requestId)}, ${uuid(actor.userId)}, ${asset}, ${command.amount},
          CAST(${command.usdcAmount} AS INTEGER), ${command.side},
          ${command.disclosed}, 'open', ${group.at}, ${expiry(command, group.at)}, ${group.seq},
          ${command.label ?? null}, unhex(${key.key_hash}), unhex(${key.terms_hash})
        WHERE ${guardOf(preconditions(command, settings, group.at))}`,
      ...saveWithRequest(group, command, settings),
      countDaily(
        dailyUse(settings, "requests", actor.userId),
        group.at,
        sql`EXISTS (SELECT 1 FROM requests
          WHERE request_id = ${uuid(requestId)} AND opened_group = ${group.seq})`,
      ),
    ],
    result: (effects) => {
      const row = effects.requests.get(hexId(requestId));
      return row === undefined ? undefined : { ok: true, kind: "request", row, replayed: false };
    },
    rejection: () =>
      questionOf({
        preconditions: preconditions(command, settings, NOW),
        facts: { instant: NOW, ...limitFacts(traderOf(actor), tradeOf(command).venue) },
        apart: { ...actorFacts(actor), ...earlierFacts(command) },
      }),
  };
}

/** The end of the request's life, at most the close of its market. */
function expiry({ asset, expiresInSecs }: OpenRequest, at: Expr): Expr {
  const own = expr`${at} + ${expiresInSecs * 1_000}`;
  return expr`min(${own}, coalesce((SELECT closes_at FROM markets WHERE asset = ${asset}), ${own}))`;
}

function preconditions(
  command: OpenRequest,
  settings: Config,
  at: Expr,
): readonly Precondition<InstantFact & LimitFacts & ActorFacts & EarlierFacts, Result>[] {
  const { actor, asset, requestId } = command;
  const venue = readAssetKey(asset)?.venue ?? "";
  const perUser = settings.RFQ_OPEN_REQUESTS_PER_USER;
  const daily = dailyUse(settings, "requests", actor.userId);
  return [
    actorMayWrite(actor, at),
    ...keyIsUnused(command, at),
    ...marketListed(asset, settings),
    ...beforeDeadline(at, command.notAfter, refused),
    inTime(command, at, settings),
    marketOpen(atom("?", [asset]), at),
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM paused_venues WHERE venue = ${venue})`,
      reject: () => venuePaused(venue),
    },
    largeEnough(command, settings),
    storageLeft,
    {
      expr: expr`(SELECT count(*) FROM requests
        WHERE requester_id = ${uuid(actor.userId)} AND status = 'open'
          AND expires_at > ${at}) < ${perUser}`,
      reject: () =>
        reject("open_request_limit", `You have reached the limit of ${perUser} open requests.`),
    },
    {
      expr: belowDailyLimit(daily, at),
      reject: () => refused(dailyLimitProblem(daily)),
    },
    withinLimits(actor, tradeOf(command).venue, at),
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM requests WHERE request_id = ${uuid(requestId)})`,
      reject: () => undefined,
    },
  ];
}

/** A quote on a request in money is for at least as many tokens, because none costs above 1 USDC. */
function largeEnough(
  { asset, amount, usdcAmount }: OpenRequest,
  { VENUES }: Config,
): Precondition<unknown, Result> {
  const venue = readAssetKey(asset)?.venue;
  const minimum = BigInt(VENUES.find(({ venue_id }) => venue_id === venue)?.min_request ?? 1);
  return {
    expr: BigInt(amount ?? usdcAmount ?? 0) >= minimum ? TRUE : FALSE,
    reject: () =>
      reject(
        "request_amount_limit",
        `The amount is below the venue's minimum of ${minimum} native units.`,
        { minimum: toHex(minimum) },
      ),
  };
}

/** A request gives nothing, but its venue is bound. */
function tradeOf({ asset }: OpenRequest) {
  return { venue: atom("?", [readAssetKey(asset)?.venue ?? ""]) };
}
