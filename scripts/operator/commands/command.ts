/** What a command of the operator's tool is, and flags that several have. */
import type { CommandName } from "../../../src/operator/commands.ts";

/** The commands of the service, and three that the tool carries out without it. */
export type Name = CommandName | "key create" | "log find" | "user export";
export type Command = Described & { words: readonly string[] };
/** The commands of one file. All files together have each of them (../commands.ts). */
export type Some = Readonly<Partial<Record<Name, Described>>>;

export type Flag = { name: string; value: string; required?: boolean; help: string };
export type Described = {
  /** A word after the command, for example a venue. */
  argument?: { name: string; required: boolean };
  flags?: readonly Flag[];
  /** Exactly one of these two flags identifies the user. */
  user?: readonly [Flag, Flag];
  help: string;
};

/** `flag("limit <n>", …)`. Without a value it is a switch. */
export function flag(spelled: string, help: string): Flag {
  const [name = "", ...value] = spelled.split(" ");
  return { name, value: value.join(" "), help };
}

/** A flag that its command requires. */
export function needed(spelled: string, help: string): Flag {
  return { ...flag(spelled, help), required: true };
}

export const ID = needed("id <id>", "id of the record");
/** Of lists: rows of one user. */
export const OF_USER: readonly Flag[] = [
  flag("email <email>", "only of the user with this email address"),
  flag("user-id <id>", "only of the user with this id"),
];
export const SINCE = flag(
  "since <time>",
  "only from then on: RFC 3339, or back from now, such as 90m, 6h or 2d",
);
export const LIMIT = flag("limit <n>", "maximum number of rows, 1 to 500; default 50");
/** Of lists. */
export const PAGE: readonly Flag[] = [
  LIMIT,
  flag("cursor <text>", "`next_cursor` of the page before"),
];
