/** What the operator's tool understands (contract, section 7): pure, so that the parsing can be tested. */
import { parseArgs } from "node:util";
import type { OperatorRequest } from "../stack/operator-call.ts";

type Flag = { name: string; value: string; required?: boolean; help: string };
export type Command = {
  words: string[];
  /** A word after the command, for example a venue. */
  argument?: { name: string; required: boolean };
  flags?: Flag[];
  /** The user is named by exactly one of these two. */
  user?: readonly [Flag, Flag];
  help: string;
};

const EMAIL: Flag = {
  name: "email",
  value: "<email>",
  required: true,
  help: "what the user logs in with",
};
const USER = [
  { name: "email", value: "<email>", help: "the user, by email" },
  { name: "user-id", value: "<id>", help: "the user, by id" },
] as const;
const ID: Flag = { name: "id", value: "<id>", required: true, help: "its id" };
const LIMIT: Flag = {
  name: "limit",
  value: "<n>",
  help: "at most so many, newest first: 1 to 500, 50 when left out",
};

export const COMMANDS: readonly Command[] = [
  {
    words: ["user", "create"],
    flags: [EMAIL],
    help: "a user; the password is made here and shown once",
  },
  {
    words: ["user", "set-password"],
    user: USER,
    flags: [
      {
        name: "new-email",
        value: "<email>",
        help: "a new email too, for an account that a restore wrote again",
      },
    ],
    help: "a new password, made here and shown once; ends the user's sessions, leaves API keys and a freeze",
  },
  {
    words: ["user", "freeze"],
    user: USER,
    help: "nothing works for the user any more; requests and quotes are cancelled",
  },
  {
    words: ["user", "unfreeze"],
    user: USER,
    help: "undoes a freeze; what it cancelled stays cancelled",
  },
  {
    words: ["api-key", "create"],
    user: USER,
    flags: [
      {
        name: "scopes",
        value: "<list>",
        required: true,
        help: "of read, trade, withdraw, with commas",
      },
      { name: "label", value: "<text>", help: "for the user to know it by" },
    ],
    help: "an API key, withdraw included; the secret is shown once",
  },
  { words: ["api-key", "revoke"], flags: [ID], help: "ends a key" },
  { words: ["keys", "rewrap"], help: "seals every API key's secret with the newest master key" },
  {
    words: ["deposits", "list"],
    flags: [
      { name: "status", value: "<status>", help: "confirming, credited, orphaned or quarantined" },
      LIMIT,
    ],
    help: "deposits of all users",
  },
  {
    words: ["deposits", "reviewed"],
    flags: [{ name: "reason", value: "<text>", required: true, help: "for the audit" }],
    help: "closes the alerts about quarantined deposits; the deposits stay quarantined",
  },
  {
    words: ["withdrawals", "list"],
    flags: [
      { name: "status", value: "<status>", help: "queued, submitted, settled or failed" },
      LIMIT,
    ],
    help: "withdrawals of all users",
  },
  { words: ["withdrawals", "retry"], flags: [ID], help: "takes a stuck withdrawal up again" },
  {
    words: ["withdrawals", "fail"],
    flags: [ID],
    help: "gives the funds back, once the chain rules a payment out",
  },
  { words: ["withdrawals", "pause"], help: "no new withdrawals, queued ones wait" },
  { words: ["withdrawals", "resume"], help: "undoes a pause" },
  {
    words: ["chain", "status"],
    argument: { name: "chain", required: false },
    help: "how far each chain is scanned and paid",
  },
  {
    words: ["chain", "resume"],
    argument: { name: "chain", required: true },
    help: "goes on after a halt",
  },
  {
    words: ["venue", "pause"],
    argument: { name: "venue", required: true },
    help: "no new requests, quotes and matches there; open requests are cancelled and their quotes rejected",
  },
  {
    words: ["venue", "resume"],
    argument: { name: "venue", required: true },
    help: "undoes a pause; what it ended stays ended",
  },
  {
    words: ["restore"],
    flags: [{ name: "yes", value: "", help: "also when neither a payer nor a chain is halted" }],
    help: "rebuilds from the chains what a restored database has forgotten",
  },
  {
    words: ["reconcile"],
    flags: [
      {
        name: "resolve",
        value: "<reason>",
        help: "first closes all differences found before; the reason is for the audit",
      },
    ],
    help: "compares journal, balances and chains; exits with 1 when they differ or a chain could not be asked",
  },
  { words: ["audit", "list"], flags: [LIMIT], help: "the newest audit events of everyone" },
  {
    words: ["audit", "verify"],
    help: "checks the audit chain from its first row; exits with 1 when it is broken",
  },
];

/** Flags of every command. */
const COMMON_FLAGS: readonly Flag[] = [
  { name: "remote", value: "", help: "the deployed service, on your own Cloudflare credentials" },
  {
    name: "json",
    value: "",
    help: "one JSON object instead of text; with `npm run -s`, which keeps npm's own lines out",
  },
  {
    name: "dir",
    value: "<path>",
    help: "the directory of the local stack; RFQ_DIR or .stack by default",
  },
  {
    name: "operator",
    value: "<name>",
    help: "who you are in the audit; your login name when left out",
  },
];

export class UsageError extends Error {
  /** The command that was meant, if that much is known. */
  readonly command: Command | undefined;
  /** Otherwise the commands that may have been meant. */
  readonly near: readonly Command[];
  constructor(message: string, command?: Command, near: readonly Command[] = COMMANDS) {
    super(message);
    this.command = command;
    this.near = near;
  }
}

export type Parsed =
  | { help: true; text: string }
  | {
      help: false;
      command: OperatorRequest;
      remote: boolean;
      json: boolean;
      dir: string | undefined;
    };

/** Throws UsageError for whatever is no command. */
export function parseCommand(args: string[], defaultOperator: string): Parsed {
  const { values, positionals } = parse(args);
  const command = commandOf(positionals);
  if (values["help"] === true)
    return { help: true, text: command === undefined ? usage() : commandUsage(command) };
  if (positionals.length === 0) throw new UsageError("which command?");
  if (command === undefined) {
    const near = COMMANDS.filter(({ words }) => words[0] === positionals[0]);
    throw new UsageError(
      `there is no command "${positionals.join(" ")}"`,
      undefined,
      near.length > 0 ? near : COMMANDS,
    );
  }
  const extra = positionals.slice(command.words.length);
  const { argument } = command;
  if (argument?.required === true && extra.length === 0) {
    throw new UsageError(`${nameOf(command)} needs <${argument.name}>`, command);
  }
  if (extra.length > (argument === undefined ? 0 : 1))
    throw new UsageError(`what is "${extra.at(-1)}"?`, command);
  return {
    help: false,
    remote: values["remote"] === true,
    json: values["json"] === true,
    dir: stringOf(values["dir"]),
    command: {
      command: positionals,
      options: optionsOf(command, values),
      operator: stringOf(values["operator"]) ?? defaultOperator,
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

/** As texts: the entrypoint reads them, and answers what is wrong with one. */
function optionsOf(command: Command, values: Record<string, unknown>): Record<string, string> {
  const flags = flagsOf(command);
  const known = new Set([...flags, ...COMMON_FLAGS].map(({ name }) => name));
  const unknown = Object.keys(values).find((name) => !known.has(name));
  if (unknown !== undefined)
    throw new UsageError(`${nameOf(command)} does not take --${unknown}`, command);
  const options: Record<string, string> = {};
  for (const { name, required } of flags) {
    const value = values[name] === true ? "true" : stringOf(values[name]);
    if (value === undefined) {
      if (required === true) throw new UsageError(`${nameOf(command)} needs --${name}`, command);
      continue;
    }
    options[name] = value;
  }
  if (command.user !== undefined) {
    const [one, other] = command.user;
    const given = command.user.filter(({ name }) => name in options).length;
    if (given === 0)
      throw new UsageError(`${nameOf(command)} needs --${one.name} or --${other.name}`, command);
    if (given === 2)
      throw new UsageError(
        `${nameOf(command)} takes --${one.name} or --${other.name}, not both`,
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
    const meant = commandOf(args.filter((word) => !word.startsWith("-")));
    const message = error instanceof Error ? error.message : String(error);
    throw new UsageError(message.split(/\.\s/)[0] ?? message, meant);
  }
}

/** `--limit -1` is a bad number, not a flag named -1. */
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

/** What one may type after wrong usage: the command that was meant, or the list of those that may have been. */
export function usageAfter({ command, near }: UsageError): string {
  if (command !== undefined) return commandUsage(command);
  return near.length === COMMANDS.length ? usage() : listOf(near);
}

export function commandUsage(command: Command): string {
  return [
    `npm run operator -- ${synopsis(command)} [flags of every command]`,
    `    ${command.help}`,
    ...flagsOf(command).map(flagLine),
    "Flags of every command:",
    ...COMMON_FLAGS.map(flagLine),
  ].join("\n");
}

export function usage(): string {
  return [
    "npm run operator -- <command> [flags]",
    "",
    listOf(COMMANDS),
    "",
    "Flags of every command:",
    ...COMMON_FLAGS.map(flagLine),
    "",
    "<command> --help explains one alone.",
    "Exit codes: 0 done, 1 refused or not as it should be, 2 wrong usage, 3 not reachable.",
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
  const named = user === undefined ? [] : [`(${user.map(spelled).join(" | ")})`];
  return [
    ...words,
    ...word,
    ...named,
    ...flags.map((flag) => (flag.required === true ? spelled(flag) : `[${spelled(flag)}]`)),
  ].join(" ");
}

function spelled({ name, value }: Flag): string {
  return `--${name}${value === "" ? "" : ` ${value}`}`;
}
