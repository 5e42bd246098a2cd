import type { Group } from "../platform/commit.ts";
import type { Question } from "../platform/preconditions.ts";
import type { Sql } from "../platform/sql.ts";
import type { Result } from "./command.ts";
import type { MatchRow, QuoteRow, RequestRow } from "./records.ts";

/**
 * What a group did, read from the rows that it stamped, so it is the same after a lost response.
 * Ids are hex.
 */
export type GroupEffects = {
  readonly requests: ReadonlyMap<string, RequestRow>;
  readonly quotes: ReadonlyMap<string, QuoteRow>;
  readonly matches: ReadonlyMap<string, MatchRow>;
  /** Operations that ended a request or a quote. */
  readonly endedBy: ReadonlySet<string>;
};

/**
 * One command as part of a commit group. `statements` begins with the guard. Everything after it
 * depends on what the guard wrote, so an operation whose guard does not apply writes nothing.
 */
export type Operation = {
  readonly userId: string;
  /** When the service received the command, in Unix milliseconds by the clock of the Worker. */
  readonly receivedAt: number;
  /** A quote or an accept. It binds a price to an instant, so it stops while the clock is wrong. */
  readonly binding?: true;
  statements(group: Group): readonly Sql[];
  /** The result, if the guard applied. */
  result(effects: GroupEffects): Result | undefined;
  /**
   * Why the guard did not apply, asked outside the group. Undefined if all
   * preconditions hold now.
   */
  rejection(): Question<Result>;
};

/** A UUID as SQLite's `hex()` spells it. */
export function hexId(id: string): string {
  return id.replaceAll("-", "").toUpperCase();
}
