/** Schemas of auth: responses that several routes share, and the body of a new key. */
import * as z from "zod";
import { boolean, boundedText, described, oneOf, timestamp, timeOut } from "../http/fields.ts";
import { SCOPES } from "../platform/actor.ts";
import { anyPassword, ipRanges, totpCode } from "./account-fields.ts";
import { KeyLimitsField } from "./key-limits.ts";

/** What routes have in common: a session changes its own account, and anyone logs in. */
export const OWN_POST = { tag: "Auth", method: "post", credential: "session" } as const;
export const PUBLIC_POST = { tag: "Auth", method: "post", credential: "public" } as const;

export const Scopes = z.array(z.enum(SCOPES));

export const SessionToken = z
  .object({
    access_token: described(z.string(), "Token for `Authorization: Bearer` (a JWT)"),
    token_type: described(z.literal("Bearer"), "Always `Bearer`"),
    expires_in: described(z.int(), "Seconds until the session expires"),
    expires_at: timeOut("When the session expires"),
    user_id: described(z.uuid(), "Id of the user"),
    scopes: described(Scopes, "Scopes of the session"),
  })
  .meta({ id: "Session" });

export const NewKeyBody = z.strictObject({
  label: described(boundedText(1, 64), "Name of the key, for the user's list"),
  scopes: z
    .array(oneOf(SCOPES), "must be a list of scopes")
    .min(1, "must contain at least one scope")
    .max(SCOPES.length)
    .meta({ description: "The key gets those of these scopes that the session has." }),
  expires_at: timestamp
    .nullable()
    .optional()
    .meta({
      type: ["string", "null"],
      format: "date-time",
      description:
        "Must be in the future. Null: the key never expires. Omitted: a key with more than " +
        "`read` expires after 90 days, another one never.",
      examples: ["2030-01-01T00:00:00.000Z"],
    }),
  allowed_ips: ipRanges
    .nullable()
    .optional()
    .meta({ description: "IP addresses and CIDR ranges that may use the key. Null: any." }),
  limits: KeyLimitsField.nullable().optional(),
  require_idempotency: described(
    boolean.optional(),
    "Whether requests and quotes that the key signs need `idempotency_key` in the body, which " +
      "is signed. Then a captured call has no second effect. Default: false.",
  ),
  password: described(
    anyPassword.optional(),
    "The password, if the key gets more than `read` and the login was more than " +
      "`fresh_session_secs` of GET /config ago",
  ),
  totp_code: described(
    totpCode.optional(),
    "Six digits of the authenticator, if TOTP is on and the key gets more than `read`",
  ),
  request_approval: described(
    boolean.optional(),
    "True: asks for a key with the scope `withdraw`, which has no scopes until the operator has " +
      "approved it. Needs `allowed_ips`, and `expires_at` within 366 days. Default: false.",
  ),
});
