/** `waiting`: one list of all that goes on only when a person acts, in words. */
import { listWaitingKeys } from "../auth/approve-key.ts";
import { listAllWithdrawals } from "../custody/operator-commands.ts";
import { commandText } from "../platform/command-text.ts";
import { expr } from "../platform/sql.ts";
import { ageText } from "../platform/time.ts";
import { openOrders } from "./approvals.ts";
import type { OperatorContext } from "./context.ts";

/** Most rows of each kind. `withdrawals list` and `approvals list` have all. */
const MOST = 100;

type Waiting = { for: string; age: string; what: string; next: string | null };

/** Keys and orders that an operator approves, and withdrawals that their owner does. */
export async function waiting({ env, settings }: OperatorContext): Promise<Waiting[]> {
  const next = (...words: readonly string[]) => commandText(settings, "operator", ...words);
  const [keys, orders, withdrawals] = await Promise.all([
    listWaitingKeys(env.DB),
    openOrders(env.DB),
    listAllWithdrawals(env.DB, [expr`w.status = 'awaiting_approval'`], MOST),
  ]);
  return [
    ...keys.map(({ id, email, label, at }) => ({
      for: "an operator",
      age: ageText(at),
      what: `${email} asks for the withdraw key "${label}"`,
      next: next("api-key", "approve", "--id", id),
    })),
    ...orders.map(({ id, operator, text, at }) => ({
      for: "another operator",
      age: ageText(at),
      what: `${operator} proposes: ${text}`,
      next: next("approve", "--id", id),
    })),
    ...withdrawals.map(({ withdrawal_id, email, created_at }) => ({
      for: "its owner",
      age: ageText(Date.parse(created_at)),
      what: `${email} must approve a withdrawal`,
      next: next("withdrawals", "show", "--id", withdrawal_id),
    })),
  ];
}
