/**
 * What a withdrawal has behind it and ahead of it, and why it waits, in words. And what its form
 * makes of a key and of errors.
 */
import { type Policy, Problem, type Withdrawal } from "@rfq-custody/client";
import { formatTokens } from "../units.ts";

const DAY_MS = 86_400_000;

export type Step = {
  title: string;
  note?: string;
  /** Of the transaction that pays. */
  hash?: string;
  at?: string;
  state: "done" | "now" | "later" | "failed";
};
/** What a withdrawal waits for is decided by these. Undefined: not read yet. */
export type Circumstances = {
  recent: readonly Withdrawal[];
  policy: Policy | undefined;
  paused: boolean;
  confirmations: number | undefined;
  now: number;
};

export const STATES: Record<Withdrawal["status"], string> = {
  awaiting_approval: "Waits for your approval",
  queued: "In line to be sent",
  submitted: "Sent",
  settled: "Arrived",
  failed: "Not paid",
  cancelled: "Cancelled",
};

export const isUnfinished = ({ status }: Pick<Withdrawal, "status">) =>
  status === "awaiting_approval" || status === "queued" || status === "submitted";

/** The limit that `amount` lifts the last day's unapproved sum above, and that sum, or null. */
export function approvalNeeded(
  amount: bigint,
  { recent, policy, now }: Circumstances,
): { limit: bigint; sum: bigint } | null {
  const limit = policy?.withdraw_approval_above ?? null;
  // Amounts of all assets count alike, in native units.
  const sum = recent
    .filter(
      ({ status, approval_expires_at: approved, created_at }) =>
        approved === null &&
        (isUnfinished({ status }) || status === "settled") &&
        Date.parse(created_at) > now - DAY_MS,
    )
    .reduce((total, withdrawal) => total + withdrawal.amount, amount);
  return limit === null || sum <= limit ? null : { limit, sum };
}

/** Why it is not there yet. */
export function whyItWaits(withdrawal: Withdrawal, circumstances: Circumstances): string {
  const { paused, confirmations } = circumstances;
  const need = approvalNeeded(withdrawal.amount, circumstances);
  switch (withdrawal.status) {
    case "awaiting_approval":
      return need === null
        ? "It was above your limit for approvals when you asked."
        : `It lifts the sum of a day to ${formatTokens(need.sum)}, above your limit of ` +
            `${formatTokens(need.limit)}.`;
    case "queued":
      return paused
        ? "Withdrawals are paused. It is sent when they go on."
        : "The oldest is sent first.";
    case "submitted":
      return confirmations === undefined
        ? "The chain confirms its transaction."
        : `The chain confirms its transaction, ${confirmations} times in all.`;
    default:
      return "";
  }
}

/** The last one is the arrival, or why there is none. */
export function stepsOf(withdrawal: Withdrawal, circumstances: Circumstances): readonly Step[] {
  const { status, created_at, updated_at, failure, transaction_hash } = withdrawal;
  const asked: Step = { title: "You asked", state: "done", at: created_at };
  if (status === "failed" || status === "cancelled") {
    const note = `${failure?.message ?? ""} The amount is yours again.`.trim();
    return [asked, { title: STATES[status], note, state: "failed", at: updated_at }];
  }
  const ahead: Withdrawal["status"][] = ["queued", "submitted", "settled"];
  if (withdrawal.approval_expires_at !== null) ahead.unshift("awaiting_approval");
  const place = ahead.indexOf(status);
  return [
    asked,
    ...ahead.map((reached, index): Step => {
      const title = reached === "awaiting_approval" ? "Your approval" : STATES[reached];
      const state =
        index < place || status === "settled" ? "done" : index > place ? "later" : "now";
      const note = state === "now" ? whyItWaits(withdrawal, circumstances) : "";
      const hash = reached === "submitted" && transaction_hash !== null;
      return {
        title,
        state,
        note,
        ...(hash ? { hash: transaction_hash } : {}),
        ...(index === place ? { at: updated_at } : {}),
      };
    }),
  ];
}

/** A pasted key: the id, then the secret, with or without the labels of the receipt. */
export function apiKeyOf(text: string): { apiKeyId: string; secret: string } | null {
  const match = /([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})[\s:,;]*(?:Secret:\s*)?(\S+)\s*$/i;
  const [, apiKeyId, secret] = match.exec(text) ?? [];
  return apiKeyId === undefined || secret === undefined ? null : { apiKeyId, secret };
}

/** Whether the call may have taken effect. Only a rejection says that it has not. */
export function mayHaveArrived(error: unknown): boolean {
  if (!(error instanceof Problem)) return true;
  const isRejection = error.code === "withdrawals_paused" || error.body["outcome"] === "none";
  return error.status >= 500 && !isRejection;
}
