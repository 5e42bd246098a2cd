/** The operator's commands by name (contract.md section 7). Every change is an audit event. */
import { approve, listProposals, reject } from "./approvals.ts";
import * as alerts from "./alerts.ts";
import { listAudit, verifyLog } from "./audit-commands.ts";
import * as chains from "./chains.ts";
import * as deposits from "./deposits.ts";
import { doctor } from "./doctor.ts";
import { history } from "./user-history.ts";
import type { OperatorCommand } from "./context.ts";
import * as markets from "./markets.ts";
import * as journal from "./journal.ts";
import { fees, liabilities } from "./house.ts";
import { rescue } from "./rescue.ts";
import { storage } from "./show-storage.ts";
import * as showUsers from "./show-users.ts";
import { show as showWithdrawals } from "./show-withdrawals.ts";
import * as stuck from "./stuck.ts";
import * as trading from "./trading.ts";
import * as users from "./users.ts";
import * as venues from "./pause-venue.ts";
import * as withdrawals from "./withdrawals.ts";

export const COMMANDS: Readonly<Record<string, OperatorCommand>> = {
  "user create": users.createAccount,
  "user list": showUsers.list,
  "user show": showUsers.show,
  "user set-password": users.setUserPassword,
  "user reset-totp": users.resetUserTotp,
  "user freeze": users.freeze,
  "user unfreeze": users.unfreeze,
  "api-key create": users.createKey,
  "api-key revoke": users.revokeKey,
  "api-key approve": users.approveKey,
  "api-key reject": users.rejectKey,
  "keys rewrap": users.rewrap,
  "deposits list": deposits.list,
  "deposits reviewed": deposits.reviewed,
  "withdrawals list": withdrawals.list,
  "withdrawals show": showWithdrawals,
  "withdrawals retry": withdrawals.retry,
  "withdrawals fail": withdrawals.fail,
  "withdrawals rescue": rescue,
  "withdrawals pause": (context) => withdrawals.setPaused(context, true),
  "withdrawals resume": (context) => withdrawals.setPaused(context, false),
  "chain status": chains.status,
  "chain resume": chains.resume,
  "chain rescan": chains.rescan,
  "chain forget-deposit": chains.forget,
  "chain resweep": chains.resweep,
  "venue pause": venues.pause,
  "venue resume": venues.resume,
  "requests list": trading.requests,
  "quotes list": trading.quotes,
  "matches list": trading.matches,
  liabilities,
  fees,
  "market set": markets.set,
  "market import": markets.importAll,
  "market close": markets.close,
  "market resolve": markets.resolve,
  "market list": markets.list,
  "stuck end": stuck.end,
  history,
  "alerts list": alerts.list,
  "alerts close": alerts.close,
  restore: chains.restore,
  reconcile: chains.reconcileAll,
  "journal verify": journal.verify,
  "journal mend": journal.mend,
  storage,
  doctor,
  "approvals list": listProposals,
  // entrypoint.ts carries out what it returns.
  approve,
  reject,
  "audit list": listAudit,
  "audit verify": verifyLog,
};

/** Commands that change nothing. Their orders are no audit events, and no answer is kept. */
export const READS: ReadonlySet<string> = new Set([
  "alerts list",
  "approvals list",
  "audit list",
  "audit verify",
  "chain status",
  "deposits list",
  "doctor",
  "fees",
  "history",
  "journal verify",
  "liabilities",
  "market list",
  "matches list",
  "quotes list",
  "requests list",
  "storage",
  "user list",
  "user show",
  "withdrawals list",
  "withdrawals show",
]);
