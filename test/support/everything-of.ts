/** All that the database has of a user: what a call of somebody else must leave as it is. */
import { env } from "cloudflare:workers";
import { all, atom, join, raw, scalar, sql, uuid } from "../../src/platform/sql.ts";

const db = env.DB;

/** A refused call uses up a code, too. */
const CODES = "'totp_attempts', 'wrong_codes', 'last_step'";

let tables: Promise<readonly { readonly name: string; readonly row: string }[]> | undefined;

/** The tables with a column `user_id`, each with SQL for the text of a row. */
async function readTables() {
  const columns = await all<{ name: string; columns: string }>(
    db,
    sql`SELECT m.name, group_concat('quote(' || c.name || ')', ' || '','' || ') AS columns
      FROM (SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%user_id BLOB%') m,
        pragma_table_info(m.name) c
      WHERE m.name NOT IN (${raw(CODES)}) AND c.name NOT IN (${raw(CODES)}) GROUP BY m.name`,
  );
  return columns.map(({ name, columns: row }) => ({ name, row }));
}

/** One line for each row, `table: columns`. */
export async function everythingOf(userId: string): Promise<string[]> {
  tables ??= readTables();
  const texts = (await tables).map(
    ({ name, row }) => sql`coalesce((SELECT group_concat(line, char(10)) FROM (
      SELECT ${name} || ': ' || ${raw(row)} AS line FROM ${raw(name)}
      WHERE user_id = ${uuid(userId)} ORDER BY 1)), '')`,
  );
  const { text, params } = join(texts, " || char(10) || ");
  const lines = await scalar<string>(db, atom(text, params));
  return lines.split("\n").filter((line) => line !== "");
}
