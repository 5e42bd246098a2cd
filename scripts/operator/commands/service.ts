/** Commands about the service: restore, reconciliation, operators and the audit log. */
import { flag, ID, LIMIT, needed, OF_USER, PAGE, SINCE, type Some } from "./command.ts";

const PROPOSAL_ID = { ...ID, help: "id of the proposal, of `approvals list --wide`" };

export const SERVICE_COMMANDS = {
  "records list": {
    flags: [SINCE, ...PAGE],
    help: "list recovery records of withdrawals and addresses, and heads of the audit log",
  },
  "records put": {
    flags: [needed("file <path>", "JSON list of up to 500 rows of `records list`")],
    help: "give the rows to an account that was made anew, for `restore`",
  },
  restore: {
    flags: [
      flag("yes", "restore although neither a payer nor a chain is halted"),
      flag(
        "accept-payment <payment id>",
        "instead, accept a payment of the vault that the service did not order",
      ),
      flag("as <loss|rescue>", "a loss is booked; a rescue was never credited"),
      flag("reason <text>", "reason for the acceptance"),
    ],
    help: "rebuild from the chains what a restored database does not contain",
  },
  reconcile: {
    flags: [
      flag(
        "resolve <reason>",
        "first close all differences found before, with this reason for the audit event",
      ),
    ],
    help: "compare journal, balances and chains; exits with 1 on a difference or unread chain",
  },
  "alerts list": {
    flags: [
      flag("kind <kind>", "only alerts of this kind"),
      flag("all", "those that have closed, too"),
      SINCE,
      ...PAGE,
    ],
    help: "list open alerts, newest first",
  },
  "alerts close": {
    flags: [
      needed("kind <kind>", "kind of the alert"),
      needed("subject <subject>", "subject of the alert, of `alerts list`"),
      needed("reason <text>", "reason for the audit event"),
    ],
    help: "close an alert after its review; the next case is then reported",
  },
  "alerts test": { help: "raise the alert pager_test, which ALERT_URL receives within a minute" },
  "journal verify": {
    flags: [flag("from <n>", "the first seal to read; default 1")],
    help: "verify the archive's seals and compare them with balances; exits with 1 on a discrepancy",
  },
  "journal mend": {
    flags: [],
    help: "write what the database says of each user's archive as the archive has it (history_cut)",
  },
  storage: {
    flags: [LIMIT],
    help: "show bytes by table and by user, growth a day and the day the database is full; reads all rows",
  },
  doctor: {
    help: "name every setting that fails open, and R2 buckets without a lock; exits with 1 if any",
  },
  "key create": {
    flags: [
      needed("name <name>", "your name in the secret OPERATORS"),
      needed("deployment <name>", "the setting DEPLOYMENT of the service"),
    ],
    help: "make your key, with which you sign orders; prints the public half to deploy",
  },
  "log find": {
    flags: [
      needed("request-id <id>", "x-request-id of the response"),
      flag("in <path>", "file to search; default: the local stack's log"),
    ],
    help: "show what the service logged about one request",
  },
  waiting: { help: "list what waits for a person, in words, with the command that goes on" },
  "approvals list": { help: "list orders that wait for a second operator" },
  approve: {
    flags: [PROPOSAL_ID, flag("yes", "do not ask, for calls without a terminal")],
    help: "show another operator's order, ask, then approve it and carry it out",
  },
  reject: { flags: [PROPOSAL_ID], help: "reject an order that waits for a second operator" },
  "audit list": {
    flags: [
      flag(
        "kind <kind>",
        "only events of this kind; `all` includes seals of the journal, which are left out",
      ),
      flag("subject <text>", "only events about it"),
      ...OF_USER,
      SINCE,
      ...PAGE,
    ],
    help: "list audit events of all users, newest first",
  },
  "audit verify": {
    flags: [
      flag(
        "known-restores <n>",
        "how many restores of the database you know of; more are an error; default 0",
      ),
    ],
    help: "verify the audit log from its first row; exits with 1 if anything is wrong",
  },
} satisfies Some;
