/** Commands about the service: restore, reconciliation, operators and the audit log. */
import { ID, LIMIT, OF_USER, SINCE, type Some, type Flag } from "./command.ts";

const PROPOSAL_ID: Flag = { ...ID, help: "id of the proposal, of `approvals list --wide`" };

export const SERVICE_COMMANDS = {
  restore: {
    flags: [
      { name: "yes", value: "", help: "restore although neither a payer nor a chain is halted" },
      {
        name: "accept-payment",
        value: "<payment id>",
        help: "instead, accept a payment of the vault that the service did not order",
      },
      { name: "as", value: "<loss|rescue>", help: "a loss is booked; a rescue was never credited" },
      { name: "reason", value: "<text>", help: "reason for the acceptance" },
    ],
    help: "rebuild from the chains what a restored database does not contain",
  },
  reconcile: {
    flags: [
      {
        name: "resolve",
        value: "<reason>",
        help: "first close all differences found before, with this reason for the audit event",
      },
    ],
    help: "compare journal, balances and chains; exits with 1 on a difference or unread chain",
  },
  "alerts list": {
    flags: [
      { name: "kind", value: "<kind>", help: "only alerts of this kind" },
      { name: "all", value: "", help: "those that have closed, too" },
      SINCE,
      LIMIT,
    ],
    help: "list open alerts, newest first",
  },
  "alerts close": {
    flags: [
      { name: "kind", value: "<kind>", required: true, help: "kind of the alert" },
      {
        name: "subject",
        value: "<subject>",
        required: true,
        help: "subject of the alert, of `chain status --wide`",
      },
      { name: "reason", value: "<text>", required: true, help: "reason for the audit event" },
    ],
    help: "close an alert after its review; the next case is then reported",
  },
  "alerts test": {
    help: "raise the alert pager_test, which ALERT_URL receives within a minute",
  },
  "journal verify": {
    flags: [{ name: "from", value: "<n>", help: "the first seal to read; default 1" }],
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
      { name: "name", value: "<name>", required: true, help: "your name in the secret OPERATORS" },
      {
        name: "deployment",
        value: "<name>",
        required: true,
        help: "the setting DEPLOYMENT of the service",
      },
    ],
    help: "make your key, with which you sign orders; prints the public half to deploy",
  },
  "log find": {
    flags: [
      { name: "request-id", value: "<id>", required: true, help: "x-request-id of the response" },
      { name: "in", value: "<path>", help: "file to search; default: the local stack's log" },
    ],
    help: "show what the service logged about one request",
  },
  console: {
    flags: [{ name: "port", value: "<n>", help: "port on 127.0.0.1; default: a free one" }],
    help: "serve a page on this machine that shows whether all is well; ends on Ctrl-C",
  },
  "approvals list": { help: "list orders that wait for a second operator" },
  approve: {
    flags: [PROPOSAL_ID],
    help: "approve another operator's order and carry it out",
  },
  reject: {
    flags: [PROPOSAL_ID],
    help: "reject an order that waits for a second operator",
  },
  "audit list": {
    flags: [
      {
        name: "kind",
        value: "<kind>",
        help: "only events of this kind; `all` includes seals of the journal, which are left out",
      },
      { name: "before", value: "<n>", help: "only older events; `next_before` of the last page" },
      { name: "subject", value: "<text>", help: "only events about it" },
      ...OF_USER,
      SINCE,
      LIMIT,
    ],
    help: "list audit events of all users, newest first",
  },
  "audit verify": {
    flags: [
      {
        name: "known-restores",
        value: "<n>",
        help: "how many restores of the database you know of; more are an error; default 0",
      },
    ],
    help: "verify the audit log from its first row; exits with 1 if anything is wrong",
  },
} satisfies Some;
