/** Refused commands cost a user nothing, so they have a rate class. At its limit D1 is not read. */
import { countRefusal } from "../http/rate-limit.ts";
import { config } from "../platform/config.ts";
import type { Actor } from "../platform/actor.ts";
import { errorFields, log } from "../platform/log.ts";
import { Problem, type ProblemData } from "../platform/problem.ts";
import { now } from "../platform/time.ts";
import { type Command, refused, type Result } from "./command.ts";

/** The class is used up until this instant, in Unix milliseconds, as this isolate has learned. */
const usedUp = new Map<string, { readonly until: number; readonly problem: ProblemData }>();
/** Bounds memory. A forgotten user is refused again by the next count. */
const MAX_USED_UP = 10_000;

/** Nothing was decided, or another limit applied. Neither is the command's fault. */
const NOT_REFUSED = new Set<ProblemData["code"]>(["rate_limited", "unavailable", "internal"]);

/**
 * Cancels that came too late, as those of a maker in a busy market do. To repeat a cancel that
 * succeeded costs as much and is no refusal, so counting these would protect nothing.
 */
const TOO_LATE = new Set<ProblemData["code"]>([
  "quote_not_open",
  "request_not_open",
  "request_expired",
]);

/** Carries out a command unless too many commands of its user were refused lately. */
export async function limitRefusals(
  env: Env,
  command: Command,
  carryOut: () => Promise<Result>,
): Promise<Result> {
  const key = keyOf(command.actor, command.op);
  const known = usedUpProblem(key);
  if (known !== undefined) return refused(known);
  const result = await carryOut();
  if (isCancel(command.op) && !result.ok && TOO_LATE.has(result.problem.code)) return result;
  await countRefused(env, key, result);
  return result;
}

/** The same for several quotes. Each that is refused counts. */
export async function limitRefusalsOfQuotes(
  env: Env,
  actor: Actor,
  carryOut: () => Promise<readonly Result[]>,
): Promise<readonly Result[]> {
  const key = keyOf(actor, "place_quote");
  const known = usedUpProblem(key);
  if (known !== undefined) throw new Problem(known);
  const results = await carryOut();
  for (const result of results)
    if (usedUpProblem(key) === undefined) await countRefused(env, key, result);
  return results;
}

async function countRefused(env: Env, key: string, result: Result): Promise<void> {
  if (result.ok || NOT_REFUSED.has(result.problem.code)) return;
  const problem = await countRefusal(env, config(env), key).catch((error: unknown) => {
    // The command was refused all the same.
    log("warn", "rfq.refusal_not_counted", errorFields(error));
    return undefined;
  });
  if (problem === undefined) {
    usedUp.delete(key);
  } else {
    if (usedUp.size >= MAX_USED_UP) usedUp.clear();
    usedUp.set(key, { until: now() + 1_000 * (problem.retryAfterSecs ?? 0), problem });
  }
}

/** The rejection of a further such command, if the class is used up. It costs nothing to ask. */
export function refusedAlready(actor: Actor, op: unknown): ProblemData | undefined {
  return usedUpProblem(keyOf(actor, op));
}

function usedUpProblem(key: string): ProblemData | undefined {
  const known = usedUp.get(key);
  return known !== undefined && now() < known.until ? known.problem : undefined;
}

/** Cancels count apart, so that a maker whose quotes are refused can still cancel. */
function keyOf({ userId }: Actor, op: unknown): string {
  return isCancel(op) ? `${userId}:cancel` : userId;
}

function isCancel(op: unknown): boolean {
  return op === "cancel_quote" || op === "cancel_request";
}
