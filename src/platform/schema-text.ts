/** The text of `sqlite_master` in the form in which two databases are compared. */

/**
 * What belongs to the service: not SQLite's, not Cloudflare's, not wrangler's. Indexes of a key
 * have no text and follow from their table.
 */
export const OWN_OBJECTS = `SELECT type, name, sql FROM sqlite_master
  WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
    AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\'
    AND NOT (type = 'table' AND name = 'd1_migrations')
  ORDER BY type, name`;

/**
 * Comments and white space outside of quotes do not count, because each tool that splits a
 * migration treats them in its own way.
 */
export function schemaText(sql: string): string {
  return sql
    .replace(/('(?:[^']|'')*'|"[^"]*")|(?:--[^\n]*|\s)+/g, (_, quoted?: string) => quoted ?? " ")
    .trim();
}
