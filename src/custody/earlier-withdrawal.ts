/** The withdrawal that used a client_withdrawal_id before: a replay returns it. */
import { problem } from "../platform/problem.ts";
import { type Columns, expr, jsonObject, jsonText, uuid } from "../platform/sql.ts";
import { WITHDRAWAL, type WithdrawalRow } from "./payment-records.ts";
import type { Withdrawn, WithdrawTerms } from "./withdraw.ts";

/** The withdrawal that used this client_withdrawal_id before, as JSON text. */
export type EarlierFacts = { readonly earlier: string | null };

export function earlierFacts(userId: string, terms: WithdrawTerms): Columns<keyof EarlierFacts> {
  return {
    earlier: expr`SELECT ${jsonText(jsonObject(WITHDRAWAL))} FROM withdrawals w
      WHERE w.user_id = ${uuid(userId)} AND w.client_withdrawal_id = ${terms.clientWithdrawalId}`,
  };
}

/** Throws when the terms of the earlier withdrawal differ, by value, not by spelling. */
export function earlierWithdrawal(
  earlier: string | null,
  terms: WithdrawTerms,
): Withdrawn | undefined {
  if (earlier === null) return undefined;
  // Safe cast: the text is a `json_object` of the columns that the row type lists.
  const row = JSON.parse(earlier) as WithdrawalRow;
  const same =
    BigInt(row.amount) === terms.amount &&
    row.to_address.toLowerCase() === terms.toAddress.slice(2).toLowerCase() &&
    row.chain === terms.chain &&
    row.asset === terms.asset;
  if (same) return { row, replayed: true, events: [] };
  return idReused();
}

export function idReused(): never {
  throw problem(
    "client_withdrawal_id_reused",
    "This client_withdrawal_id was used with other terms. Choose a new one.",
  );
}
