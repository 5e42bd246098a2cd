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
export const LIMIT: Flag = {
  name: "limit",
  value: "<n>",
  help: "maximum number of rows, 1 to 500; default 50",
};
