/** Commands about deposits, withdrawals and chains. */
import { flag, ID, needed, OF_USER, PAGE, SINCE, type Some } from "./command.ts";

const WITHDRAWAL_STATUS = "awaiting_approval, queued, submitted, settled, failed or cancelled";

export const CUSTODY_COMMANDS = {
  "deposits list": {
    flags: [
      flag("status <status>", "confirming, credited, orphaned, quarantined or below_minimum"),
      ...OF_USER,
      SINCE,
      ...PAGE,
    ],
    help: "list deposits of all users, newest first",
  },
  "deposits reviewed": {
    flags: [needed("reason <text>", "reason for the audit event")],
    help: "close the alerts about quarantined deposits; the deposits stay quarantined",
  },
  "withdrawals list": {
    flags: [flag("status <status>", WITHDRAWAL_STATUS), ...OF_USER, SINCE, ...PAGE],
    help: "list withdrawals of all users, newest first",
  },
  "withdrawals show": {
    flags: [
      { ...ID, required: false, help: "id of the withdrawal" },
      flag("client-id <text>", "or the id that its user gave it"),
      flag("tx <0x…>", "or the hash of its transaction"),
    ],
    help: "show a withdrawal, why it waits, and the command that goes on",
  },
  "withdrawals retry": { flags: [ID], help: "retry a stuck withdrawal" },
  "withdrawals fail": {
    flags: [ID],
    help: "void the payment on chain, or find it paid on other terms, then return the funds",
  },
  "withdrawals rescue": {
    flags: [
      needed("token <0x…|native>", "contract of the token"),
      flag("token-id <id>", "id of an ERC-1155 token"),
      needed("to <0x…>", "address that receives it"),
      needed("amount <units>", "native units"),
      flag("from <0x…>", "the deposit address that received it; default: the vault received it"),
      flag("chain <chain>", "default: the deployment's default chain"),
      flag("send", "make the calls; only on the local stack"),
    ],
    help: "show the vault admin's calls that return a token sent by mistake; changes nothing",
  },
  "withdrawals pause": { help: "reject new withdrawals; queued ones wait" },
  "withdrawals resume": { help: "end the pause" },
  "chain status": {
    argument: { name: "chain", required: false },
    help: "show how far each chain is scanned and paid, halts, open alerts, switches and storage",
  },
  "chain resume": {
    argument: { name: "chain", required: true },
    help: "let the watcher and payer continue after a halt and its review",
  },
  "chain rescan": {
    argument: { name: "chain", required: true },
    flags: [
      needed("from <block>", "first block to read"),
      needed("to <block>", "last block to read"),
    ],
    help: "read confirmed blocks again and credit what was missed; safe to repeat",
  },
  "chain forget-deposit": {
    argument: { name: "chain", required: false },
    flags: [
      { ...ID, required: false },
      flag("block <block>", "all of the chain's block, 1,000 at a time"),
    ],
    help: "orphan a deposit that can never confirm or is below the minimum",
  },
  "chain resweep": {
    argument: { name: "chain", required: true },
    flags: [needed("address <0x…>", "the deposit address")],
    help: "put a deposit address back on the list of those to sweep",
  },
} satisfies Some;
