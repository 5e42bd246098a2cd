/** Rows that are only in the archive, which implements this (src/archive/ask-history.ts). */
import { type Problem, unavailable } from "../platform/problem.ts";
import type { Sql } from "../platform/sql.ts";
import type { Archived } from "./released.ts";

/** The rows of each SELECT over what a user's sealed transfers and matches were in the database. */
export type OldRows = (
  newest: Pick<Archived, "epoch" | "number">,
  statements: readonly Sql[],
) => Promise<readonly (readonly unknown[])[]>;

/** A page that needs rows which cannot be reached is 503. */
export function unreachable(): Problem {
  return unavailable("none", "The older entries cannot be reached.");
}

/** For readers without an archive. */
export const UNREACHABLE: OldRows = () => Promise.reject(unreachable());
