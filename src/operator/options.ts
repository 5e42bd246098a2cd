/**
 * The options of each command, and `word` if a word may follow its name. Others are refused, as the
 * fields of a body are: an order has nothing that nobody reads.
 */
import * as z from "zod";
import { invalidRequest } from "../platform/problem.ts";
import type { CommandName } from "./commands.ts";
import { parse } from "./context.ts";

const USER = "email user-id";
const PAGE = "limit cursor";
const LIST = `${USER} since ${PAGE}`;
const MARKET = "venue asset-id";
/** What the tool of an approver adds. */
const PASSWORD = "password";

export const OPTIONS: Readonly<Record<CommandName, string>> = {
  "user create": `email ${PASSWORD}`,
  "user list": `since ${PAGE}`,
  "user show": USER,
  "user set-password": `${USER} new-email keep-keys ${PASSWORD}`,
  "user reset-totp": `${USER} keep-keys`,
  "user begin-day": `${USER} limit`,
  "user freeze": USER,
  "user unfreeze": USER,
  "api-key list": LIST,
  "api-key create": `${USER} scopes label allowed-ips expires-at`,
  "api-key revoke": "id",
  "api-key approve": "id",
  "api-key reject": "id",
  "keys rewrap": "",
  "deposits list": `${LIST} status`,
  "deposits reviewed": "reason",
  "withdrawals list": `${LIST} status`,
  "withdrawals show": "id client-id tx",
  "withdrawals retry": "id",
  "withdrawals fail": "id",
  "withdrawals rescue": "token token-id to amount from chain",
  "withdrawals pause": "",
  "withdrawals resume": "",
  "chain status": "word",
  "chain resume": "word",
  "chain rescan": "word from to",
  "chain forget-deposit": "word id block",
  "chain resweep": "word address",
  "venue pause": "word",
  "venue resume": "word",
  "requests list": `${LIST} status`,
  "quotes list": `${LIST} status`,
  "matches list": LIST,
  liabilities: `at ${PAGE}`,
  holdings: PAGE,
  fees: "days month",
  makers: PAGE,
  "market set":
    `${MARKET} title outcome url event-id category description rules-url closes-at test reopen ` +
    "correct complement condition",
  "market import": "markets correct",
  "market close": MARKET,
  "market resolve": `${MARKET} result`,
  "market list": `venue status q ${PAGE}`,
  "stuck end": "id",
  history: `word ${USER} ${PAGE}`,
  ledger: `${USER} from to ${PAGE}`,
  "alerts list": `kind all since ${PAGE}`,
  "alerts close": "kind subject reason",
  "alerts test": "",
  "records list": `since ${PAGE}`,
  "records put": "records",
  restore: "yes accept-payment as reason",
  reconcile: "resolve continue",
  "journal verify": "part from most after",
  "journal mend": "",
  storage: "limit",
  doctor: "",
  waiting: "",
  "approvals list": "",
  approve: `id sha256 ${PASSWORD}`,
  reject: "id",
  "audit list": `${LIST} kind subject`,
  "audit verify": "known-restores continue",
};

const MAX_WORD = 100;

/** Throws `invalid_request` for what the command does not know. */
export function checkOptions(
  name: CommandName,
  words: readonly string[],
  options: Readonly<Record<string, unknown>>,
): void {
  const known = new Set(OPTIONS[name].split(" "));
  const most = known.delete("word") ? 1 : 0;
  const errors = [
    ...Object.keys(options)
      .filter((given) => !known.has(given))
      .map((given) => ({ path: `--${given.slice(0, MAX_WORD)}`, message: "is no option" })),
    ...words
      .filter((word, index) => index >= most || word.length > MAX_WORD)
      .map(() => ({ path: "command", message: "has a word too many, or too long" })),
  ];
  if (errors.length > 0) throw invalidRequest(errors);
  parse(z.record(z.string(), z.string("must be text")), options, "options");
}
