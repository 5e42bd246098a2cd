/** What the operator's tool understands (contract, section 7): pure, so that the parsing can be tested. */
import { parseArgs } from "node:util";
import type { OperatorCommand } from "../stack/operator-call.ts";

type Flag = { name: string; value: string; required?: boolean; help: string };
type Command = {
  words: string[];
  /** A word after the command, for example a venue. */
  argument?: { name: string; required: boolean };
  flags?: Flag[];
  help: string;
};

const EMAIL: Flag = { name: "email", value: "<email>", required: true, help: "the user" };
const ID: Flag = { name: "id", value: "<id>", required: true, help: "its id" };
const LIMIT: Flag = { name: "limit", value: "<n>", help: "at most so many, newest first" };

export const COMMANDS: readonly Command[] = [
  { words: ["user", "create"], flags: [EMAIL], help: "a user; the password is made here and shown once" },
  { words: ["user", "freeze"], flags: [EMAIL], help: "nothing works for the user any more; requests and quotes are cancelled" },
  { words: ["user", "unfreeze"], flags: [EMAIL], help: "undoes a freeze" },
  {
    words: ["api-key", "create"],
    flags: [
      EMAIL,
      { name: "scopes", value: "<list>", required: true, help: "of read, trade, withdraw, with commas" },
      { name: "label", value: "<text>", help: "for the user to know it by" },
    ],
    help: "an API key, withdraw included; the secret is shown once",
  },
  { words: ["api-key", "revoke"], flags: [ID], help: "ends a key" },
  { words: ["keys", "rewrap"], help: "seals every API key's secret with the newest master key" },
  {
    words: ["withdrawals", "list"],
    flags: [{ name: "status", value: "<status>", help: "queued, submitted, settled or failed" }, LIMIT],
    help: "withdrawals of all users",
  },
  { words: ["withdrawals", "retry"], flags: [ID], help: "takes a stuck withdrawal up again" },
  { words: ["withdrawals", "fail"], flags: [ID], help: "gives the funds back, once the chain rules a payment out" },
  { words: ["withdrawals", "pause"], help: "no new withdrawals, queued ones wait" },
  { words: ["withdrawals", "resume"], help: "undoes a pause" },
  { words: ["chain", "status"], argument: { name: "chain", required: false }, help: "how far each chain is scanned and paid" },
  { words: ["chain", "resume"], argument: { name: "chain", required: true }, help: "goes on after a halt" },
  { words: ["venue", "pause"], argument: { name: "venue", required: true }, help: "no new requests, quotes and matches there" },
  { words: ["venue", "resume"], argument: { name: "venue", required: true }, help: "undoes a pause" },
  { words: ["restore"], help: "rebuilds from the chains what a restored database has forgotten" },
  {
    words: ["reconcile"],
    flags: [{ name: "resolve", value: "<reason>", help: "closes the differences found before, after review" }],
    help: "compares journal, balances and chains; exits with 1 when they differ",
  },
  { words: ["audit", "list"], flags: [LIMIT], help: "the newest audit events of everyone" },
  { words: ["audit", "verify"], help: "checks the audit chain from its first row; exits with 1 when it is broken" },
];

/** Flags of every command. */
export const COMMON_FLAGS: readonly Flag[] = [
  { name: "remote", value: "", help: "the deployed service, on your own Cloudflare credentials" },
  { name: "json", value: "", help: "one JSON object instead of text" },
  { name: "dir", value: "<path>", help: "the local stack's directory; .stack when left out" },
  { name: "operator", value: "<name>", help: "who you are in the audit; your login name when left out" },
];

export class UsageError extends Error {}

export type Parsed = { help: true } | { help: false; command: OperatorCommand; remote: boolean; json: boolean; dir: string | undefined };

/** Throws UsageError for whatever is no command. */
export function parseCommand(args: string[], defaultOperator: string): Parsed {
  const { values, positionals } = parse(args);
  if (values["help"] === true) return { help: true };
  if (positionals.length === 0) throw new UsageError("which command?");
  const command = COMMANDS.find(({ words }) => words.every((word, index) => positionals[index] === word));
  if (command === undefined) throw new UsageError(`there is no command "${positionals.join(" ")}"`);
  const extra = positionals.slice(command.words.length);
  const { argument } = command;
  if (argument?.required === true && extra.length === 0) throw new UsageError(`${command.words.join(" ")} needs <${argument.name}>`);
  if (extra.length > (argument === undefined ? 0 : 1)) throw new UsageError(`what is "${extra.at(-1)}"?`);
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

/** As texts: the entrypoint reads them, and answers what is wrong with one. */
function optionsOf(command: Command, values: Record<string, unknown>): Record<string, string> {
  const flags = command.flags ?? [];
  const known = new Set([...flags, ...COMMON_FLAGS].map(({ name }) => name));
  const unknown = Object.keys(values).find((name) => !known.has(name));
  if (unknown !== undefined) throw new UsageError(`${command.words.join(" ")} does not take --${unknown}`);
  const options: Record<string, string> = {};
  for (const { name, required } of flags) {
    const value = stringOf(values[name]);
    if (value === undefined) {
      if (required === true) throw new UsageError(`${command.words.join(" ")} needs --${name}`);
      continue;
    }
    options[name] = value;
  }
  return options;
}

function parse(args: string[]) {
  const flags = [...COMMANDS.flatMap((command) => command.flags ?? []), ...COMMON_FLAGS];
  const options = Object.fromEntries(
    flags.map(({ name, value }) => [name, value === "" ? { type: "boolean" as const } : { type: "string" as const }]),
  );
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: { ...options, help: { type: "boolean", short: "h" } },
    });
    return { values: values as Record<string, unknown>, positionals };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function stringOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function usage(): string {
  const flag = ({ name, value, required }: Flag) => {
    const text = `--${name}${value === "" ? "" : ` ${value}`}`;
    return required === true ? text : `[${text}]`;
  };
  const line = ({ words, argument, flags = [] }: Command) => {
    const word = argument === undefined ? [] : [argument.required ? `<${argument.name}>` : `[<${argument.name}>]`];
    return [...words, ...word, ...flags.map(flag)].join(" ");
  };
  return [
    "npm run operator -- <command> [flags]",
    "",
    ...COMMANDS.flatMap((command) => [`  ${line(command)}`, `      ${command.help}`]),
    "",
    "Flags of every command:",
    ...COMMON_FLAGS.map((it) => `  ${`--${it.name} ${it.value}`.padEnd(20)} ${it.help}`),
    "",
    "Exit codes: 0 done, 1 refused or not as it should be, 2 wrong usage, 3 not reachable.",
  ].join("\n");
}
