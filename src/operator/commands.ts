/** The operator's commands by name (contract.md section 7). Every change is an audit event. */
import { approve, listProposals, reject } from "./approvals.ts";
import * as alerts from "./alerts.ts";
import { listAudit, verifyLog } from "./audit-commands.ts";
import * as chains from "./chains.ts";
import * as deposits from "./deposits.ts";
import { doctor } from "./doctor.ts";
import type { Config } from "../platform/config.ts";
import type { OperatorCommand, OperatorContext } from "./context.ts";
import * as markets from "./markets.ts";
import * as journal from "./journal.ts";
import { fees, holdings, liabilities } from "./house.ts";
import * as records from "./records.ts";
import { rescue } from "./rescue.ts";
import { restore } from "./restore.ts";
import { storage } from "./show-storage.ts";
import * as showUsers from "./show-users.ts";
import * as trading from "./trading.ts";
import * as users from "./users.ts";
import { waiting } from "./waiting.ts";
import * as withdrawals from "./withdrawals.ts";

/** An order of it changes nothing, changes something, or needs a second operator to do so. */
type Kind = "reads" | "changes" | "by two";

export const COMMANDS = {
  "user create": ["changes", users.createAccount],
  "user list": ["reads", showUsers.list],
  "user show": ["reads", showUsers.show],
  "user set-password": ["by two", users.setUserPassword],
  "user reset-totp": ["by two", users.resetUserTotp],
  "user freeze": ["changes", users.freeze],
  "user unfreeze": ["by two", users.unfreeze],
  "user begin-day": ["changes", users.beginDayAgain],
  "api-key list": ["reads", showUsers.withdrawKeys],
  "api-key create": ["changes", users.createKey],
  "api-key revoke": ["changes", users.revokeKey],
  "api-key approve": ["by two", users.approveKey],
  "api-key reject": ["changes", users.rejectKey],
  "keys rewrap": ["changes", users.rewrap],
  "deposits list": ["reads", deposits.list],
  "deposits reviewed": ["changes", deposits.reviewed],
  "withdrawals list": ["reads", withdrawals.list],
  "withdrawals show": ["reads", withdrawals.show],
  "withdrawals retry": ["changes", withdrawals.retry],
  "withdrawals fail": ["by two", withdrawals.fail],
  "withdrawals rescue": ["by two", rescue],
  "withdrawals pause": ["changes", (context) => withdrawals.setPaused(context, true)],
  "withdrawals resume": ["by two", (context) => withdrawals.setPaused(context, false)],
  "chain status": ["reads", chains.status],
  "chain resume": ["by two", chains.resume],
  "chain rescan": ["changes", chains.rescan],
  "chain forget-deposit": ["by two", chains.forget],
  "chain resweep": ["changes", chains.resweep],
  "venue pause": ["changes", trading.pause],
  "venue resume": ["by two", trading.resume],
  "requests list": ["reads", trading.requests],
  "quotes list": ["reads", trading.quotes],
  "matches list": ["reads", trading.matches],
  liabilities: ["reads", liabilities],
  holdings: ["reads", holdings],
  fees: ["reads", fees],
  makers: ["reads", trading.makers],
  "market set": ["changes", markets.set],
  "market import": ["changes", markets.importAll],
  "market close": ["changes", markets.close],
  "market resolve": ["changes", markets.resolve],
  "market list": ["reads", markets.list],
  "stuck end": ["changes", trading.end],
  history: ["reads", showUsers.history],
  ledger: ["reads", showUsers.ledger],
  "alerts list": ["reads", alerts.list],
  "alerts close": ["changes", alerts.close],
  "alerts test": ["changes", alerts.test],
  "records list": ["reads", records.list],
  "records put": ["changes", records.put],
  restore: ["by two", restore],
  reconcile: ["changes", chains.reconcileAll],
  "journal verify": ["reads", journal.verify],
  "journal mend": ["changes", journal.mend],
  storage: ["reads", storage],
  doctor: ["reads", doctor],
  waiting: ["reads", waiting],
  "approvals list": ["reads", listProposals],
  // entrypoint.ts carries out what it returns.
  approve: ["changes", approve],
  reject: ["changes", reject],
  "audit list": ["reads", listAudit],
  "audit verify": ["reads", verifyLog],
} as const satisfies Readonly<Record<string, readonly [Kind, OperatorCommand]>>;

/** The tool has the help of each (scripts/operator/commands.ts). */
export type CommandName = keyof typeof COMMANDS;

/** Whether its orders are no audit events, and no answer is kept. */
export function isRead(name: CommandName): boolean {
  return COMMANDS[name][0] === "reads";
}

/**
 * A new email address always does: its old owner hears of it and of nothing after it. So do a
 * result and another name of a market, on which everybody who holds the token relies.
 */
export function needsTwo(
  settings: Config,
  command: CommandName,
  options: OperatorContext["options"],
): boolean {
  if (command === "user set-password" && options["new-email"] !== undefined) return true;
  if (command === "market resolve" || options["correct"] !== undefined) return true;
  return settings.OPERATOR_APPROVALS === 2 && COMMANDS[command][0] === "by two";
}

export function carryOut(name: CommandName, context: OperatorContext): Promise<unknown> {
  const [, run] = COMMANDS[name];
  return run(context);
}

export function isCommand(name: string): name is CommandName {
  return Object.hasOwn(COMMANDS, name);
}
