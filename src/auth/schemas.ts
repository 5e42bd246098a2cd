/** Schemas of auth: the fields of an account and of its keys, and what several routes share. */
import * as z from "zod";
import {
  boolean,
  boundedText,
  described,
  oneOf,
  textField,
  timestamp,
  timeOut,
} from "../http/fields.ts";
import { address } from "../assets/asset-fields.ts";
import { parseIpRange } from "../http/ip-range.ts";
import { SCOPES } from "../platform/actor.ts";
import { HIDDEN, normalText } from "../platform/normal-text.ts";
import { KeyLimitsField } from "./key-limits.ts";
import { MAX_PASSWORD_BYTES } from "./password.ts";
import type { GivenCodes } from "./second-factor.ts";
import { normalizeEmail } from "./user.ts";

/** Checks the shape only. Hidden letters would make two addresses look alike. */
export const email = textField(
  (given) => {
    const canonical = normalizeEmail(given);
    const shaped = /^[^\s@]+@[^\s@\P{ASCII}]+$/u.test(canonical);
    // IDNA drops hidden letters of a domain, so the given text counts, too.
    const valid = shaped && !HIDDEN.test(given) && normalText(canonical) === canonical;
    return valid && given.length <= 254 && canonical.length <= 254 ? canonical : undefined;
  },
  "must be an email address",
  {
    type: "string",
    description:
      "Email address. Case, and forms of the same letter, are ignored. Invisible characters and " +
      "domains that IDNA does not allow are invalid.",
    pattern:
      "^[^\\s@\\u0000-\\u001F\\u007F-\\u009F\\uFEFF]+@[^\\s@\\u0000-\\u001F\\u007F-\\u009F\\uFEFF]+$",
    maxLength: 254,
  },
);

/** Limited in bytes, because scrypt hashes the password before the caller is authenticated. */
function passwordField(minChars: number, message: string, description: string) {
  return textField(
    (given) =>
      Buffer.byteLength(given) <= MAX_PASSWORD_BYTES && Array.from(given).length >= minChars
        ? given
        : undefined,
    message,
    {
      type: "string",
      format: "password",
      minLength: minChars,
      maxLength: MAX_PASSWORD_BYTES,
      description,
    },
  );
}

export const anyPassword = passwordField(1, "must be text of 1 to 1024 bytes", "1 to 1024 bytes");

export const MIN_PASSWORD_CHARS = 12;

export const newPassword = passwordField(
  MIN_PASSWORD_CHARS,
  "must be text of at least 12 characters and at most 1024 bytes",
  "At least 12 characters, at most 1024 bytes",
);

export const totpCode = textField(
  (given) => (/^\d{6}$/.test(given) ? given : undefined),
  "must be six digits",
  { type: "string", pattern: "^[0-9]{6}$", description: "Six digits of the authenticator" },
);

export const recoveryCode = textField(
  (given) =>
    /^[A-Za-z2-7]{16}$/.test(given.replace(/[- ]/g, "")) && given.length <= 32 ? given : undefined,
  "must be a recovery code of 16 letters and digits",
  {
    type: "string",
    maxLength: 32,
    description: "A recovery code. Case, spaces and hyphens are ignored. It is valid once.",
  },
);

const ipRange = textField(
  (given) => (parseIpRange(given) === undefined ? undefined : given),
  "must be an IPv4 or IPv6 address or CIDR range",
  {
    type: "string",
    pattern: "^[0-9a-fA-F.:]{2,39}(/[0-9]{1,3})?$",
    description: "IPv4 or IPv6 address or CIDR range",
  },
);

export const keyLabel = described(boundedText(1, 64), "Name of the key, for the user's list");

/** Ranges in the allow list of an API key. */
export const MAX_ALLOWED_IPS = 32;

const MAX_NAMED_ADDRESSES = 16;

export const ipRanges = z
  .array(ipRange, "must be a list of addresses")
  .min(1, "must contain at least one address, or be omitted to allow any")
  .max(MAX_ALLOWED_IPS);

/** Samples of fields that the examples of the description have, too (scripts/openapi/samples.ts). */
export const SAMPLE = {
  email: "taker@example.com",
  password: "correct horse battery",
  totp_code: "492039",
};

/** The rule that a body contains one code at most. The example contains no recovery code. */
export function oneCode<Body extends z.ZodType<GivenCodes>>(body: Body, example: object): Body {
  return body
    .refine(
      ({ totp_code: code, recovery_code: recovery }) =>
        code === undefined || recovery === undefined,
      { path: ["recovery_code"], message: "must not be combined with totp_code" },
    )
    .meta({
      examples: [example],
      not: {
        properties: { totp_code: {}, recovery_code: {} },
        required: ["totp_code", "recovery_code"],
      },
    });
}

/** The fields of step-up (step-up.ts), for bodies of calls that change who may act. */
export const stepUpFields = {
  password: described(anyPassword, "The password of the account"),
  totp_code: described(totpCode.optional(), "Six digits of the authenticator, if TOTP is on"),
};

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
  label: keyLabel,
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
        "Must be in the future. Null: the key never expires. Omitted: after 90 days. A notice " +
        "`api_key_expiring` comes a week before.",
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
    "The password, if the key gets more than `read` or lives longer than 90 days, and the login " +
      "was more than `fresh_session_secs` of GET /config ago",
  ),
  totp_code: described(
    totpCode.optional(),
    "Six digits of the authenticator, if TOTP is on and the key gets more than `read` or lives " +
      "longer than 90 days",
  ),
  request_approval: described(
    boolean.optional(),
    "True: asks for a key with the scope `withdraw`, which has no scopes until the operator has " +
      "approved it. Needs `allowed_ips` without ranges wider than /8 (IPv6: /16), and `expires_at` " +
      "within 366 days. Default: false.",
  ),
  only_listed: described(
    boolean.optional(),
    "True: the key withdraws only to addresses of your address book. With TOTP on it then needs no " +
      "operator: it gets its scopes after the security delay, announced at once, at half time and " +
      "at the end. Default: false.",
  ),
  addresses: z
    .array(address, "must be a list of addresses")
    .min(1, "must contain at least one address, or be omitted to allow all that are listed")
    .max(MAX_NAMED_ADDRESSES)
    .nullable()
    .optional()
    .meta({
      description:
        "With `only_listed`: of these, those that are listed. Null: all that are listed.",
    }),
});
