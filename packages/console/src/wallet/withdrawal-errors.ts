/** What the form of a withdrawal makes of its key and of the errors of its call. */
import { type KnownProblemCode, Problem } from "@rfq-custody/client";

/** A pasted key: the id, then the secret, with or without the labels of the receipt. */
export function apiKeyOf(text: string): { apiKeyId: string; secret: string } | null {
  const match = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[\s:,;]*(?:Secret:\s*)?(\S+)\s*$/i;
  const [, apiKeyId, secret] = match.exec(text) ?? [];
  return apiKeyId === undefined || secret === undefined ? null : { apiKeyId, secret };
}

const FIELDS: Readonly<Record<string, readonly KnownProblemCode[]>> = {
  key: [
    "api_key_unknown",
    "api_key_revoked",
    "api_key_expired",
    "signature_invalid",
    "scope_missing",
    "ip_not_allowed",
  ],
  to: ["address_not_listed", "destination_refused", "chain_unknown"],
  amount: [
    "insufficient_funds",
    "withdrawal_amount_limit",
    "withdrawal_daily_limit",
    "account_limit",
    "chain_liquidity",
  ],
};

/** The field that caused the error, if one did. */
export function fieldOf(error: unknown): string | undefined {
  if (!(error instanceof Problem)) return undefined;
  return Object.keys(FIELDS).find((field) => FIELDS[field]?.some((code) => code === error.code));
}

/** Whether the call may have taken effect. Only a rejection says that it has not. */
export function mayHaveArrived(error: unknown): boolean {
  return !(error instanceof Problem) || (error.status >= 500 && error.body["outcome"] !== "none");
}
