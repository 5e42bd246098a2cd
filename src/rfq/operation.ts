import type { Group } from "../platform/commit.ts";
import type { Sql } from "../platform/sql.ts";
import type { Answer } from "./command.ts";
import type { MatchRow, QuoteRow, RequestRow } from "./records.ts";

/** What a group did, read from the rows it stamped: the same after a lost answer as after a plain one. Ids are hex. */
export type GroupEffects = {
  readonly requests: ReadonlyMap<string, RequestRow>;
  readonly quotes: ReadonlyMap<string, QuoteRow>;
  readonly matches: ReadonlyMap<string, MatchRow>;
  /** Units that ended a request or a quote. */
  readonly endedBy: ReadonlySet<string>;
};

/**
 * One command as part of a commit group. `statements` begins with the gate; everything after it depends on what the gate
 * wrote, so that a operation whose gate does not fire writes nothing.
 */
export type Operation = {
  readonly userId: string;
  statements(group: Group): readonly Sql[];
  /** The answer, if the gate fired. */
  answer(effects: GroupEffects): Answer | undefined;
  /** Why it did not: a read outside the group. Undefined when nothing stands in the way any more. */
  explain(db: D1Database): Promise<Answer | undefined>;
};

/** A UUID as SQLite's `hex()` spells it. */
export function hexId(id: string): string {
  return id.replaceAll("-", "").toUpperCase();
}
