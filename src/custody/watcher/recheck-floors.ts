/**
 * Checks all small deposits again after a change of `min_deposit`, because nothing else looks at
 * rows of addresses that receive nothing further. The cursor's row keeps the settings that the rows
 * are checked for, and how far.
 */
import { commitOrThrow, newGroup } from "../../platform/commit.ts";
import { first, sql, TRUE } from "../../platform/sql.ts";
import type { WatcherContext } from "./commit-move.ts";
import { markDue } from "./small-deposits.ts";

/** Rows per group. Each may belong to another address with up to a thousand rows to sum. */
const ROWS_PER_GROUP = 500;

type Progress = {
  readonly floors: string | null;
  readonly after: number | null;
  readonly last: number;
};

/** Checks the next rows and marks what is due. Returns true if more rows are left. */
export async function recheckFloors(context: WatcherContext): Promise<boolean> {
  const { db, settings, chain } = context;
  const venues = settings.VENUES.filter((venue) => venue.chain === chain.chain);
  const floors = JSON.stringify([
    { venue: null, floor: chain.min_deposit },
    ...venues.map(({ venue_id, min_deposit }) => ({ venue: venue_id, floor: min_deposit })),
  ]);
  const was = await first<Progress>(
    db,
    sql`SELECT floors, floors_after AS after,
        coalesce((SELECT max(small_id) FROM small_deposits), 0) AS last
      FROM chain_cursors WHERE chain = ${chain.chain}`,
  );
  if (was === undefined || (was.floors === floors && was.after === null)) return false;
  const from = was.floors === floors ? (was.after ?? 0) : 0;
  const to = from + ROWS_PER_GROUP;
  // Rows that are recorded meanwhile are checked when they are recorded.
  const more = to < was.last;
  await commitOrThrow(db, newGroup(), [
    markDue(
      sql`SELECT hex(substr(s.key, 1, 8)) AS pair, j.value ->> 'floor' AS floor, 0 AS with_larger
        FROM small_deposits s JOIN json_each(${floors}) j ON j.value ->> 'venue' IS s.venue
        WHERE s.small_id > ${from} AND s.small_id <= ${to} AND s.chain = ${chain.chain}
        GROUP BY 1`,
      TRUE,
    ),
    sql`UPDATE chain_cursors SET floors = ${floors}, floors_after = ${more ? to : null}
      WHERE chain = ${chain.chain} AND floors IS ${was.floors} AND floors_after IS ${was.after}`,
  ]);
  return more;
}
