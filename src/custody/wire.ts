import type { z } from "@hono/zod-openapi";
import { type DepositRow, depositView, type WithdrawalRow, withdrawalView } from "./records.ts";
import type { Deposit, Withdrawal } from "./schemas.ts";

export type DepositWire = z.input<typeof Deposit>;
export type WithdrawalWire = z.input<typeof Withdrawal>;

/** The views serve events too and name no type of their own; the schemas of the routes describe the same members. */
export function depositWire(row: DepositRow): DepositWire {
  return depositView(row) as DepositWire;
}

export function withdrawalWire(row: WithdrawalRow): WithdrawalWire {
  return withdrawalView(row) as WithdrawalWire;
}
