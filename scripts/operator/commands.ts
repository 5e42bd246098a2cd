/** The command line of the operator's tool (contract.md section 7): commands, flags and help. */
import { parseArgs } from "node:util";
import type { OperatorRequest } from "../stack/operator-call.ts";
import { ACCOUNTS_COMMANDS } from "./commands/accounts.ts";
import { CUSTODY_COMMANDS } from "./commands/custody.ts";
import { TRADING_COMMANDS } from "./commands/trading.ts";
import { SERVICE_COMMANDS } from "./commands/service.ts";
import { type Command, type Described, type Flag, flag, type Name } from "./commands/command.ts";

export type { Command } from "./commands/command.ts";

/** A command of the service without its help does not compile, and the other way round. */
const DESCRIBED: Readonly<Record<Name, Described>> = {
  ...ACCOUNTS_COMMANDS,
  ...CUSTODY_COMMANDS,
  ...TRADING_COMMANDS,
  ...SERVICE_COMMANDS,
};

export const COMMANDS: readonly Command[] = Object.entries(DESCRIBED).map(([name, described]) => ({
  words: name.split(" "),
  ...described,
}));

const COMMON_FLAGS: readonly Flag[] = [
  flag(
    "env <name>",
    "the deployed service of deploy.<name>.json, with your Cloudflare credentials",
  ),
  flag("wide", "print ids and texts of lists in full"),
  flag("csv", "print all pages of a list as CSV, amounts in native units"),
  flag("json", "print one JSON object; use `npm run -s` to suppress npm's own output"),
  flag("dir <path>", "directory of the local stack; default RFQ_DIR or .stack"),
  flag(
    "operator <name>",
    "whose key signs the order; default: your only key, or the first of a local stack",
  ),
];

export class UsageError extends Error {
  /** The command that the user intended, if known. */
  readonly command: Command | undefined;
  constructor(message: string, command?: Command) {
    super(message);
    this.command = command;
  }
}

export type Parsed =
  | { help: true; text: string }
  | {
      help: false;
      command: OperatorRequest;
      env: string | undefined;
      json: boolean;
      csv: boolean;
      wide: boolean;
      dir: string | undefined;
    };

/** Throws UsageError if the arguments are not a valid command. */
export function parseCommand(args: string[]): Parsed {
  const { values, positionals } = parse(args);
  const command = commandOf(positionals);
  if (values["help"] === true)
    return { help: true, text: command === undefined ? usage() : commandUsage(command) };
  if (positionals.length === 0)
    throw new UsageError("a command is required. npm run operator -- --help lists them.");
  if (command === undefined) {
    const meant = nearest(positionals.join(" ")).map((name) => `"${name}"`);
    throw new UsageError(
      `unknown command "${positionals.join(" ")}". Did you mean ${meant.join(" or ")}? ` +
        "All commands: npm run operator -- --help",
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
    env: stringOf(values["env"]),
    json: values["json"] === true,
    csv: values["csv"] === true,
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

/** The two commands that share most with it, of those with the same first word if any. */
function nearest(typed: string): string[] {
  const names = COMMANDS.map(nameOf);
  const siblings = names.filter((name) => name.split(" ")[0] === typed.split(" ")[0]);
  const from = siblings.length > 0 ? siblings : names;
  const pairs = new Set(pairsOf(typed));
  const likeness = (name: string) =>
    pairsOf(name).filter((pair) => pairs.has(pair)).length / (name.length + typed.length);
  return from.toSorted((one, other) => likeness(other) - likeness(one)).slice(0, 2);
}

/** Letters that follow each other. */
function pairsOf(text: string): string[] {
  return Array.from(text, (_, at) => text.slice(at, at + 2));
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

/** A usage error with the help of the intended command, or in one line if there is none. */
export function explained({ command, message }: UsageError): string {
  return command === undefined ? message : `${commandUsage(command)}\n\n${message}`;
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
    ...COMMANDS.flatMap((command) => [`  ${synopsis(command)}`, `      ${command.help}`]),
    "",
    "Common flags:",
    ...COMMON_FLAGS.map(flagLine),
    "",
    "<command> --help shows the help of one command.",
    "Exit codes: 0 success, 1 rejected or check failed, 2 invalid usage, 3 not reachable.",
  ].join("\n");
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
    ...flags.map((one) => (one.required === true ? spelled(one) : `[${spelled(one)}]`)),
  ].join(" ");
}

function spelled({ name, value }: Flag): string {
  return `--${name}${value === "" ? "" : ` ${value}`}`;
}
