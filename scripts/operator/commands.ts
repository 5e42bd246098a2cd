/** The command line of the operator's tool (contract.md section 7): commands, flags and help. */
import { parseArgs } from "node:util";
import type { OperatorRequest } from "../stack/operator-call.ts";

type Flag = { name: string; value: string; required?: boolean; help: string };
export type Command = {
  words: string[];
  /** A word after the command, for example a venue. */
  argument?: { name: string; required: boolean };
  flags?: Flag[];
  /** Exactly one of these two flags identifies the user. */
  user?: readonly [Flag, Flag];
  help: string;
};

const EMAIL: Flag = {
  name: "email",
  value: "<email>",
  required: true,
  help: "email address for the login",
};
const USER = [
  { name: "email", value: "<email>", help: "email address of the user" },
  { name: "user-id", value: "<id>", help: "id of the user" },
] as const;
const ID: Flag = { name: "id", value: "<id>", required: true, help: "id of the record" };
const OF_USER: readonly Flag[] = [
  { name: "email", value: "<email>", help: "only of the user with this email address" },
  { name: "user-id", value: "<id>", help: "only of the user with this id" },
];
const MARKET: readonly Flag[] = [
  { name: "venue", value: "<venue>", required: true, help: "venue of the asset" },
  { name: "asset-id", value: "<0x…>", required: true, help: "outcome token of the venue" },
];
const KEEP_KEYS: Flag = {
  name: "keep-keys",
  value: "",
  help: "leave the API keys that sessions minted; by default they are revoked",
};
const LIMIT: Flag = {
  name: "limit",
  value: "<n>",
  help: "maximum number of rows, 1 to 500; default 50",
};

export const COMMANDS: readonly Command[] = [
  {
    words: ["user", "create"],
    flags: [EMAIL],
    help: "create a user; generates a password and shows it once",
  },
  { words: ["user", "list"], flags: [LIMIT], help: "list users, newest first" },
  {
    words: ["user", "show"],
    user: USER,
    help: "show a user's balances, API keys, open requests and quotes and unfinished withdrawals",
  },
  {
    words: ["user", "set-password"],
    user: USER,
    flags: [
      {
        name: "new-email",
        value: "<email>",
        help: "new email address, for an account that a restore rebuilt",
      },
      KEEP_KEYS,
    ],
    help: "set a generated password and show it once; sessions may only read for a day",
  },
  {
    words: ["user", "reset-totp"],
    user: USER,
    flags: [KEEP_KEYS],
    help: "turn the second factor off for a user who lost it; sessions may only read for a day",
  },
  {
    words: ["user", "freeze"],
    user: USER,
    help: "reject all calls of a user and cancel their open requests and quotes",
  },
  {
    words: ["user", "unfreeze"],
    user: USER,
    help: "end a freeze; cancelled requests and quotes stay cancelled",
  },
  {
    words: ["api-key", "create"],
    user: USER,
    flags: [
      {
        name: "scopes",
        value: "<list>",
        required: true,
        help: "comma-separated list of read, trade",
      },
      { name: "label", value: "<text>", help: "name of the key in the user's list" },
    ],
    help: "create an API key that reads or trades; shows its secret once",
  },
  { words: ["api-key", "revoke"], flags: [ID], help: "revoke an API key" },
  {
    words: ["api-key", "approve"],
    flags: [ID],
    help: "approve a withdraw key that a user asked for",
  },
  {
    words: ["api-key", "reject"],
    flags: [ID],
    help: "reject a withdraw key that a user asked for",
  },
  { words: ["keys", "rewrap"], help: "seal every API key's secret with the newest master key" },
  {
    words: ["deposits", "list"],
    flags: [
      {
        name: "status",
        value: "<status>",
        help: "confirming, credited, orphaned, quarantined or below_minimum",
      },
      LIMIT,
    ],
    help: "list deposits of all users, newest first",
  },
  {
    words: ["deposits", "reviewed"],
    flags: [
      { name: "reason", value: "<text>", required: true, help: "reason for the audit event" },
    ],
    help: "close the alerts about quarantined deposits; the deposits stay quarantined",
  },
  {
    words: ["withdrawals", "list"],
    flags: [
      { name: "status", value: "<status>", help: "queued, submitted, settled or failed" },
      LIMIT,
    ],
    help: "list withdrawals of all users, newest first",
  },
  { words: ["withdrawals", "retry"], flags: [ID], help: "retry a stuck withdrawal" },
  {
    words: ["withdrawals", "fail"],
    flags: [ID],
    help: "void the payment on chain, or find it paid on other terms, then return the funds",
  },
  {
    words: ["withdrawals", "rescue"],
    flags: [
      { name: "token", value: "<0x…|native>", required: true, help: "contract of the token" },
      { name: "token-id", value: "<id>", help: "id of an ERC-1155 token" },
      { name: "to", value: "<0x…>", required: true, help: "address that receives it" },
      { name: "amount", value: "<units>", required: true, help: "native units" },
      {
        name: "from",
        value: "<0x…>",
        help: "the deposit address that received it; default: the vault received it",
      },
      { name: "chain", value: "<chain>", help: "default: the deployment's default chain" },
      { name: "send", value: "", help: "make the calls; only on the local stack" },
    ],
    help: "show the vault admin's calls that return a token sent by mistake; changes nothing",
  },
  { words: ["withdrawals", "pause"], help: "reject new withdrawals; queued ones wait" },
  { words: ["withdrawals", "resume"], help: "end the pause" },
  {
    words: ["chain", "status"],
    argument: { name: "chain", required: false },
    help: "show how far each chain is scanned and paid, halts, open alerts, switches and storage",
  },
  {
    words: ["chain", "resume"],
    argument: { name: "chain", required: true },
    help: "let the watcher and payer continue after a halt and its review",
  },
  {
    words: ["chain", "rescan"],
    argument: { name: "chain", required: true },
    flags: [
      { name: "from", value: "<block>", required: true, help: "first block to read" },
      { name: "to", value: "<block>", required: true, help: "last block to read" },
    ],
    help: "read confirmed blocks again and credit what was missed; safe to repeat",
  },
  {
    words: ["chain", "forget-deposit"],
    flags: [ID],
    help: "orphan a deposit that can never confirm or is below the minimum",
  },
  {
    words: ["chain", "resweep"],
    argument: { name: "chain", required: true },
    flags: [{ name: "address", value: "<0x…>", required: true, help: "the deposit address" }],
    help: "put a deposit address back on the list of those to sweep",
  },
  {
    words: ["venue", "pause"],
    argument: { name: "venue", required: true },
    help: "stop trading; open requests are cancelled and their quotes rejected",
  },
  {
    words: ["venue", "resume"],
    argument: { name: "venue", required: true },
    help: "resume trading; ended requests and quotes stay ended",
  },
  {
    words: ["requests", "list"],
    flags: [
      ...OF_USER,
      { name: "status", value: "<status>", help: "open, matched, cancelled or expired" },
      LIMIT,
    ],
    help: "list requests, newest first; ended ones are kept for 48 hours",
  },
  {
    words: ["quotes", "list"],
    flags: [
      ...OF_USER,
      { name: "status", value: "<status>", help: "open, accepted, cancelled, expired or rejected" },
      LIMIT,
    ],
    help: "list quotes, newest first; ended ones are kept for 48 hours",
  },
  {
    words: ["matches", "list"],
    flags: [...OF_USER, LIMIT],
    help: "list trades with both parties and their fees, newest first",
  },
  {
    words: ["liabilities"],
    flags: [LIMIT],
    help: "show what the service owes its users, by asset and chain",
  },
  {
    words: ["fees"],
    flags: [{ name: "days", value: "<n>", help: "period, 1 to 31 days; default 1" }],
    help: "show trades, volume and fees by venue, and the fees held",
  },
  {
    words: ["market", "set"],
    flags: [
      ...MARKET,
      { name: "title", value: "<text>", required: true, help: "the question that it settles" },
      { name: "outcome", value: "<text>", required: true, help: "for which the token pays" },
      { name: "url", value: "<url>", help: "where the venue describes it" },
      {
        name: "closes-at",
        value: "<time>",
        help: "RFC 3339; an earlier one cancels what is open; default: never",
      },
      { name: "reopen", value: "", help: "open it again after `market close`" },
    ],
    help: "list a market, or replace what is stated about it",
  },
  {
    words: ["market", "import"],
    flags: [
      {
        name: "file",
        value: "<path>",
        required: true,
        help: "JSON list of up to 1 000 markets, with the fields of GET /markets but status",
      },
    ],
    help: "list many markets in one commit; others stay as they are",
  },
  {
    words: ["market", "close"],
    flags: [...MARKET],
    help: "stop trading in a market; open requests are cancelled and their quotes rejected",
  },
  {
    words: ["market", "list"],
    flags: [
      { name: "venue", value: "<venue>", help: "only markets of this venue" },
      { name: "status", value: "<status>", help: "open or closed" },
      { name: "q", value: "<words>", help: "only titles and outcomes that contain every word" },
      LIMIT,
    ],
    help: "list markets by title and outcome",
  },
  {
    words: ["stuck", "end"],
    flags: [ID],
    help: "end a quote or request that was set aside; releases what the journal has reserved for it",
  },
  {
    words: ["restore"],
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
  {
    words: ["reconcile"],
    flags: [
      {
        name: "resolve",
        value: "<reason>",
        help: "first close all differences found before, with this reason for the audit event",
      },
    ],
    help: "compare journal, balances and chains; exits with 1 on a difference or unread chain",
  },
  {
    words: ["journal", "verify"],
    flags: [{ name: "from", value: "<n>", help: "the first seal to read; default 1" }],
    help: "verify the archive's seals and compare them with balances; exits with 1 on a discrepancy",
  },
  {
    words: ["storage"],
    flags: [LIMIT],
    help: "show bytes by table and by user, growth a day and the day the database is full; reads all rows",
  },
  {
    words: ["key", "create"],
    flags: [
      { name: "name", value: "<name>", required: true, help: "your name in the secret OPERATORS" },
      {
        name: "deployment",
        value: "<name>",
        help: "the setting DEPLOYMENT of the service; default rfq-custody",
      },
    ],
    help: "make your key, with which you sign orders; prints the public half to deploy",
  },
  {
    words: ["console"],
    flags: [{ name: "port", value: "<n>", help: "port on 127.0.0.1; default: a free one" }],
    help: "serve a page on this machine that shows whether all is well; ends on Ctrl-C",
  },
  { words: ["approvals", "list"], help: "list orders that wait for a second operator" },
  { words: ["approve"], flags: [ID], help: "approve another operator's order and carry it out" },
  { words: ["reject"], flags: [ID], help: "reject an order that waits for a second operator" },
  {
    words: ["audit", "list"],
    flags: [LIMIT],
    help: "list audit events of all users, newest first",
  },
  {
    words: ["audit", "verify"],
    help: "verify the audit chain from its first row; exits with 1 if it is broken",
  },
];

/** The flags of every command. */
const COMMON_FLAGS: readonly Flag[] = [
  { name: "remote", value: "", help: "use the deployed service, with your Cloudflare credentials" },
  { name: "wide", value: "", help: "print ids and texts of lists in full" },
  {
    name: "json",
    value: "",
    help: "print one JSON object; use `npm run -s` to suppress npm's own output",
  },
  {
    name: "dir",
    value: "<path>",
    help: "directory of the local stack; default RFQ_DIR or .stack",
  },
  {
    name: "operator",
    value: "<name>",
    help: "whose key signs the order; default: your only key, or the first of a local stack",
  },
];

export class UsageError extends Error {
  /** The command that the user intended, if known. */
  readonly command: Command | undefined;
  /** Otherwise the commands that the user may have intended. */
  readonly candidates: readonly Command[];
  constructor(message: string, command?: Command, candidates: readonly Command[] = COMMANDS) {
    super(message);
    this.command = command;
    this.candidates = candidates;
  }
}

export type Parsed =
  | { help: true; text: string }
  | {
      help: false;
      command: OperatorRequest;
      remote: boolean;
      json: boolean;
      wide: boolean;
      dir: string | undefined;
    };

/** Throws UsageError if the arguments are not a valid command. */
export function parseCommand(args: string[]): Parsed {
  const { values, positionals } = parse(args);
  const command = commandOf(positionals);
  if (values["help"] === true)
    return { help: true, text: command === undefined ? usage() : commandUsage(command) };
  if (positionals.length === 0) throw new UsageError("a command is required");
  if (command === undefined) {
    const candidates = COMMANDS.filter(({ words }) => words[0] === positionals[0]);
    throw new UsageError(
      `unknown command "${positionals.join(" ")}"`,
      undefined,
      candidates.length > 0 ? candidates : COMMANDS,
    );
  }
  const extra = positionals.slice(command.words.length);
  const { argument } = command;
  if (argument?.required === true && extra.length === 0) {
    throw new UsageError(`${nameOf(command)} requires <${argument.name}>`, command);
  }
  if (extra.length > (argument === undefined ? 0 : 1))
    throw new UsageError(`unexpected argument "${extra.at(-1)}"`, command);
  return {
    help: false,
    remote: values["remote"] === true,
    json: values["json"] === true,
    wide: values["wide"] === true,
    dir: stringOf(values["dir"]),
    command: {
      command: positionals,
      options: optionsOf(command, values),
      operator: stringOf(values["operator"]),
    },
  };
}

export function commandOf(positionals: readonly string[]): Command | undefined {
  return COMMANDS.find(({ words }) => words.every((word, index) => positionals[index] === word));
}

function nameOf({ words }: Command): string {
  return words.join(" ");
}

function flagsOf({ user, flags = [] }: Command): readonly Flag[] {
  return [...(user ?? []), ...flags];
}

/** Returns the options as text. The entrypoint validates the values. */
function optionsOf(command: Command, values: Record<string, unknown>): Record<string, string> {
  const flags = flagsOf(command);
  const known = new Set([...flags, ...COMMON_FLAGS].map(({ name }) => name));
  const unknown = Object.keys(values).find((name) => !known.has(name));
  if (unknown !== undefined)
    throw new UsageError(`${nameOf(command)} does not support --${unknown}`, command);
  const options: Record<string, string> = {};
  for (const { name, required } of flags) {
    const value = values[name] === true ? "true" : stringOf(values[name]);
    if (value === undefined) {
      if (required === true) throw new UsageError(`${nameOf(command)} requires --${name}`, command);
      continue;
    }
    options[name] = value;
  }
  if (command.user !== undefined) {
    const [one, other] = command.user;
    const given = command.user.filter(({ name }) => name in options).length;
    if (given === 0)
      throw new UsageError(`${nameOf(command)} requires --${one.name} or --${other.name}`, command);
    if (given === 2)
      throw new UsageError(
        `${nameOf(command)} supports --${one.name} or --${other.name}, not both`,
        command,
      );
  }
  return options;
}

function parse(args: string[]) {
  const flags = [...COMMANDS.flatMap(flagsOf), ...COMMON_FLAGS];
  const options = Object.fromEntries(
    flags.map(({ name, value }) => [
      name,
      value === "" ? { type: "boolean" as const } : { type: "string" as const },
    ]),
  );
  try {
    const { values, positionals } = parseArgs({
      args: joinNegatives(args),
      allowPositionals: true,
      options: { ...options, help: { type: "boolean", short: "h" } },
    });
    return { values: values as Record<string, unknown>, positionals };
  } catch (error) {
    const command = commandOf(args.filter((word) => !word.startsWith("-")));
    const message = error instanceof Error ? error.message : String(error);
    throw new UsageError(message.split(/\.\s/)[0] ?? message, command);
  }
}

/** Joins `--limit -1` to `--limit=-1`, because parseArgs reads `-1` as a flag. */
function joinNegatives(args: readonly string[]): string[] {
  const joined: string[] = [];
  for (const word of args) {
    const last = joined.at(-1);
    if (/^-\d/.test(word) && last !== undefined && /^--[a-z-]+$/.test(last))
      joined.splice(-1, 1, `${last}=${word}`);
    else joined.push(word);
  }
  return joined;
}

function stringOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The help for a usage error: the intended command, or the candidates. */
export function usageAfter({ command, candidates }: UsageError): string {
  if (command !== undefined) return commandUsage(command);
  return candidates.length === COMMANDS.length ? usage() : listOf(candidates);
}

export function commandUsage(command: Command): string {
  return [
    `npm run operator -- ${synopsis(command)} [common flags]`,
    `    ${command.help}`,
    ...flagsOf(command).map(flagLine),
    "Common flags:",
    ...COMMON_FLAGS.map(flagLine),
  ].join("\n");
}

export function usage(): string {
  return [
    "npm run operator -- <command> [flags]",
    "",
    listOf(COMMANDS),
    "",
    "Common flags:",
    ...COMMON_FLAGS.map(flagLine),
    "",
    "<command> --help shows the help of one command.",
    "Exit codes: 0 success, 1 rejected or check failed, 2 invalid usage, 3 not reachable.",
  ].join("\n");
}

function listOf(commands: readonly Command[]): string {
  return commands
    .flatMap((command) => [`  ${synopsis(command)}`, `      ${command.help}`])
    .join("\n");
}

function flagLine({ name, value, help }: Flag): string {
  return `  ${`--${name} ${value}`.padEnd(20)} ${help}`;
}

function synopsis({ words, argument, user, flags = [] }: Command): string {
  const word =
    argument === undefined
      ? []
      : [argument.required ? `<${argument.name}>` : `[<${argument.name}>]`];
  const userFlag = user === undefined ? [] : [`(${user.map(spelled).join(" | ")})`];
  return [
    ...words,
    ...word,
    ...userFlag,
    ...flags.map((flag) => (flag.required === true ? spelled(flag) : `[${spelled(flag)}]`)),
  ].join(" ");
}

function spelled({ name, value }: Flag): string {
  return `--${name}${value === "" ? "" : ` ${value}`}`;
}
