/**
 * What migrations/expected.json must contain: the schema that this code runs on, each object with
 * the first half of the SHA-256 of its text (`schemaText`), and the files that make it.
 */
import { join } from "node:path";
import { expectedObjects, migrationFiles, MIGRATIONS } from "./files.ts";

export const EXPECTED = join(MIGRATIONS, "expected.json");

export function expectedSource(): string {
  const expected = { migrations: migrationFiles(), objects: Object.fromEntries(expectedObjects()) };
  return `${JSON.stringify(expected, null, 2)}\n`;
}
