/** Routes of a maker's protection (contract.md section 5). */
import * as z from "zod";
import { positiveU256 } from "../assets/asset-fields.ts";
import { route } from "../http/define-route.ts";
import { described, integer, u256Out } from "../http/fields.ts";
import type { Api } from "../http/route-definition.ts";
import { MAX_NATIVE_UNITS } from "../platform/sql.ts";
import { CANCEL_AFTER_SECS, cancelAfter } from "./cancel-after.ts";
import {
  getProtection,
  MAX_COOLDOWN_SECS,
  MAX_WINDOW_SECS,
  resetProtection,
  saveProtection,
} from "./protection.ts";
import { READ, TRADE } from "./query-fields.ts";

const COOLDOWN = "Seconds for which new quotes are rejected after a trip. Null: until it is reset";

const DEVIATION =
  "How far a quote's price may be from the last price of its asset, scaled by 1e6: 50000 is 0.05 " +
  "USDC. Beyond it a quote needs `confirm_price`. Null: no limit";

function orNull<Field extends z.ZodType>(field: Field, type: string, description: string) {
  return field
    .nullable()
    .default(null)
    .meta({ type: [type, "null"], default: null, description });
}

const ProtectionBody = z.strictObject({
  window_secs: described(
    integer(1, MAX_WINDOW_SECS),
    "Seconds before each match within which your matches as maker are counted",
  ),
  max_matches: orNull(
    integer(1, Number.MAX_SAFE_INTEGER),
    "integer",
    "Matches within the window that trip the protection. Null: no limit",
  ),
  max_usdc: orNull(
    positiveU256.refine((units) => units <= MAX_NATIVE_UNITS, "must be at most 2^62"),
    "string",
    "Sum of `usdc_amount` within the window that trips the protection, in USDC native units, " +
      "at most 2^62. Null: no limit",
  ),
  cooldown_secs: orNull(integer(1, MAX_COOLDOWN_SECS), "integer", COOLDOWN),
  max_deviation: orNull(integer(1, 1_000_000), "integer", DEVIATION),
});

const { min, max } = CANCEL_AFTER_SECS;
const CancelAfterBody = z.strictObject({
  timeout_secs: described(
    integer(0, max).refine(
      (secs) => secs === 0 || secs >= min,
      `must be 0, or an integer from ${min} to ${max}`,
    ),
    `Seconds from now, ${min} to ${max}. 0: removes the timer`,
  ),
});

const instant = (description: string) => described(z.iso.datetime().nullable(), description);
const cancelAt = instant(
  "When the quotes of the calling credential end, unless it calls before. Null: no timer",
);
const Protection = z
  .object({
    window_secs: described(
      z.int().nullable(),
      "Seconds before each match within which matches are counted. Null: never saved",
    ),
    max_matches: described(
      z.int().nullable(),
      "Matches within the window that trip it. Null: no limit",
    ),
    max_usdc: u256Out(
      "Sum of `usdc_amount` within the window that trips it, in USDC native units. Null: no limit",
    ).nullable(),
    cooldown_secs: described(z.int().nullable(), COOLDOWN),
    max_deviation: described(z.int().nullable(), DEVIATION),
    tripped_at: instant("When it tripped. Null if that was reset or its cooldown has ended"),
    blocked_until: instant(
      "When new quotes are accepted again. Null with `tripped_at`: at a reset",
    ),
    cancel_at: cancelAt,
  })
  .meta({ id: "Protection" });
const CancelAfter = z.object({ cancel_at: cancelAt }).meta({ id: "CancelAfter" });

export function registerProtectionRoutes(api: Api): void {
  route(api, {
    ...TRADE,
    method: "post",
    path: "/rfq/cancel-after",
    operationId: "setCancelAfter",
    repeatable: true,
    summary: "Cancel your quotes unless you call again in time",
    description:
      "Sets a timer of the calling credential for its own quotes; each call replaces it. From " +
      "`cancel_at` on they cannot be accepted, and the credential places none until its next call. " +
      "All sessions of a user are one credential, an API key is one of its own.",
    body: CancelAfterBody,
    response: CancelAfter,
    problems: ["unavailable"],
    handler: ({ env, actor, body }) => cancelAfter(env, actor, body.timeout_secs),
  });
  route(api, {
    ...READ,
    path: "/rfq/get-protection",
    operationId: "getProtection",
    summary: "Get your protection as a maker",
    description:
      "`tripped_at` is null unless matches have reached a limit. `cancel_at` is the timer " +
      "of POST /rfq/cancel-after.",
    response: Protection,
    handler: ({ db, actor }) => getProtection(db, actor),
  });
  route(api, {
    ...TRADE,
    method: "post",
    path: "/rfq/protection",
    operationId: "setProtection",
    summary: "Limit your matches as a maker within a sliding window",
    description:
      "The match that reaches a limit settles, even past `max_usdc`. Its commit also cancels your " +
      "other open quotes in every book, and new ones are rejected until the cooldown ends or you " +
      "reset it. Counting starts again when you save. Without both limits it is off.",
    body: ProtectionBody,
    response: Protection,
    handler: ({ env, actor, body, clientIp }) =>
      saveProtection(
        env,
        actor,
        {
          windowSecs: body.window_secs,
          maxMatches: body.max_matches,
          maxUsdc: body.max_usdc,
          cooldownSecs: body.cooldown_secs,
          maxDeviation: body.max_deviation,
        },
        clientIp,
      ),
  });
  route(api, {
    ...TRADE,
    method: "post",
    path: "/rfq/reset-protection",
    operationId: "resetProtection",
    summary: "End a trip of your protection",
    description: "You can quote again, and counting starts again.",
    response: Protection,
    handler: ({ env, actor, clientIp }) => resetProtection(env, actor, clientIp),
  });
}
