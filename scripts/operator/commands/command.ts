/** What a command of the operator's tool is, and flags that several have. */

export type Flag = { name: string; value: string; required?: boolean; help: string };
export type Command = {
  words: string[];
  /** A word after the command, for example a venue. */
  argument?: { name: string; required: boolean };
  flags?: Flag[];
  /** Exactly one of these two flags identifies the user. */
  user?: readonly [Flag, Flag];
  help: string;
};

export const ID: Flag = { name: "id", value: "<id>", required: true, help: "id of the record" };
/** Of lists: rows of one user. */
export const OF_USER: readonly Flag[] = [
  { name: "email", value: "<email>", help: "only of the user with this email address" },
  { name: "user-id", value: "<id>", help: "only of the user with this id" },
];
export const SINCE: Flag = {
  name: "since",
  value: "<time>",
  help: "only from then on: RFC 3339, or back from now, such as 90m, 6h or 2d",
};
export const LIMIT: Flag = {
  name: "limit",
  value: "<n>",
  help: "maximum number of rows, 1 to 500; default 50",
};
