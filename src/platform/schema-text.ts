/** The text of `sqlite_master` in the form in which two databases are compared. */

/** Not SQLite's, Cloudflare's or wrangler's. Indexes without text follow from their table. */
export const OWN_OBJECTS = `SELECT type, name, sql FROM sqlite_master
  WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'
    AND NOT (type = 'table' AND name = 'd1_migrations')
  ORDER BY type, name`;

/** Without comments and white space outside of quotes, which migration tools treat differently. */
export function schemaText(sql: string): string {
  return sql
    .replace(/('(?:[^']|'')*'|"[^"]*")|(?:--[^\n]*|\s)+/g, (_, quoted?: string) => quoted ?? " ")
    .trim();
}
