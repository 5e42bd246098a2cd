/** Why a call failed, in words for a person, and the field that caused it. */
import { type KnownProblemCode, NoAnswer, Problem } from "@rfq-custody/client";
import { formatUnits } from "../units.ts";

/** An error that is shown beneath the field of this name. */
export class FieldError extends Error {
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

/** What a person can cause. Other codes are told in the service's own words. */
const WORDS: Partial<Record<KnownProblemCode, string>> = {
  login_failed: "The email or the password is wrong.",
  login_throttled: "Too many attempts. Wait a minute, then try again.",
  totp_required: "Enter the code of your authenticator app.",
  totp_invalid: "This code is wrong or was used before. Wait for the next one.",
  session_invalid: "Your session has ended. Sign in again.",
  session_expired: "Your session has ended. Sign in again.",
  email_taken: "This email has an account. Sign in instead.",
  registration_closed: "The operator makes the accounts. Ask them for one.",
  account_frozen: "Your account is frozen. Unfreeze it with your authenticator code.",
  security_hold: "The operator reset your account, so this is possible after the delay only.",
  api_key_unknown: "There is no key with this id.",
  api_key_revoked: "This key was revoked.",
  api_key_expired: "This key has expired.",
  signature_invalid: "The secret is not that of this key.",
  scope_missing: "This key or session may not do that.",
  ip_not_allowed: "This key may not be used from your internet address.",
  no_quote_within: "The quote had ended, and no other one is as good.",
  quote_expired: "The quote had ended.",
  quote_not_open: "The quote had ended.",
  request_not_open: "The request had ended.",
  request_expired: "The request had ended.",
  deadline_passed: "The service was reached too late, so nothing happened.",
  own_request: "This is your own request.",
  market_closed: "Trading in this market has ended.",
  venue_paused: "This venue is paused. Try again later.",
  withdrawals_paused: "Withdrawals are paused. Nothing was taken. Try again later.",
  rate_limited: "That was too much at once. Wait a few seconds, then try again.",
  unavailable: "The service cannot do this now. Try again in a moment.",
  internal: "The service failed. Try again in a moment.",
};

/** Where the cause is, if the form has such a field. The first name that it has counts. */
const FIELDS: Partial<Record<KnownProblemCode, readonly string[]>> = {
  login_failed: ["password"],
  password_required: ["password"],
  totp_required: ["code"],
  totp_invalid: ["code"],
  email_taken: ["email"],
  api_key_unknown: ["key"],
  api_key_revoked: ["key"],
  api_key_expired: ["key"],
  signature_invalid: ["key"],
  scope_missing: ["key"],
  ip_not_allowed: ["key"],
  address_not_listed: ["to"],
  destination_refused: ["to", "address"],
  chain_unknown: ["to"],
  insufficient_funds: ["amount", "size"],
  request_amount_limit: ["size"],
  withdrawal_amount_limit: ["amount"],
  withdrawal_daily_limit: ["amount"],
  account_limit: ["amount", "size"],
  chain_liquidity: ["amount"],
};

/** By field, what is wrong with it. Empty: the error belongs to the form as a whole. */
export function fieldErrorsOf(
  error: unknown,
  has: (field: string) => boolean,
  names: Readonly<Record<string, string>> = {},
): ReadonlyMap<string, string> {
  if (error instanceof FieldError) return new Map([[error.field, error.message]]);
  if (!(error instanceof Problem)) return new Map();
  const found = error.errors.flatMap(({ path, message }) => {
    const member = path.split(".")[1] ?? path;
    const field = names[member] ?? member;
    return has(field) ? [[field, sentence(message)] as const] : [];
  });
  if (found.length > 0) return new Map(found);
  // Safe cast: an unknown code has no row.
  const field = FIELDS[error.code as KnownProblemCode]?.find(has);
  return new Map(field === undefined ? [] : [[field, explain(error)]]);
}

export function explain(error: unknown): string {
  if (error instanceof NoAnswer) return "The service does not answer. Check your connection.";
  if (!(error instanceof Problem)) return error instanceof Error ? error.message : String(error);
  const { code, errors, body } = error;
  const { available, required } = body;
  if (code === "insufficient_funds" && isHex(available) && isHex(required))
    return `This needs ${shown(required)}, and you can use ${shown(available)}.`;
  // Safe cast: an unknown code has no row.
  const words = WORDS[code as KnownProblemCode];
  if (words !== undefined) return words;
  const fields = errors.map(({ path, message }) => `${path.split(".").at(-1)} ${message}`);
  return sentence(fields.length > 0 ? fields.join("; ") : (body.detail ?? body.title ?? code));
}

const isHex = (value: unknown): value is string =>
  typeof value === "string" && /^0x[0-9a-f]+$/i.test(value);
const shown = (hex: string) => formatUnits(BigInt(hex));

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.?!]$/.test(text) ? "" : "."}`;
}
