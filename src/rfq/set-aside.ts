/**
 * Records that cannot be ended, because the database refuses the statements that would end them. A
 * quote of which less is promised than it reserves is one. Each is set aside with `stuck_at` and an
 * alert, so that everything else goes on. The operator ends it with `stuck end` (end-stuck.ts).
 */
import { alertRow } from "../platform/alert.ts";
import { commitOrThrow, newGroup } from "../platform/commit.ts";
import { log } from "../platform/log.ts";
import { raw, sql, uuid } from "../platform/sql.ts";

/** Quotes or requests by id. */
export type Records = { readonly table: "quotes" | "requests"; readonly ids: readonly string[] };

/**
 * The ids with which `attempt` fails even alone. `attempt` returns whether its batch committed; the
 * batch must change nothing if it did not. Halving finds one culprit among n in about 2 log n.
 */
export async function findCulprits(
  ids: readonly string[],
  attempt: (ids: readonly string[]) => Promise<boolean>,
): Promise<string[]> {
  if (ids.length === 0 || (await attempt(ids))) return [];
  if (ids.length === 1) return [...ids];
  const middle = Math.ceil(ids.length / 2);
  return [
    ...(await findCulprits(ids.slice(0, middle), attempt)),
    ...(await findCulprits(ids.slice(middle), attempt)),
  ];
}

export async function setAside(db: D1Database, { table, ids }: Records): Promise<void> {
  const what = table === "quotes" ? "quote" : "request";
  for (const id of ids) {
    const group = newGroup();
    const detail = `The ${what} ${id} could not be ended and was set aside. \`stuck end --id ${id}\``;
    await commitOrThrow(db, group, [
      sql`UPDATE ${raw(table)} SET stuck_at = ${group.at}
        WHERE ${raw(`${what}_id`)} = ${uuid(id)} AND status = 'open' AND stuck_at IS NULL`,
      alertRow({ kind: "record_stuck", subject: id, detail, at: group.at }),
    ]);
    log("error", "alert.record_stuck", { subject: id, table });
  }
}
