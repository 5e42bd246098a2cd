/** The migrations of a remote database, and whether it has the schema that the code expects. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OWN_OBJECTS } from "../../src/platform/schema-text.ts";
import {
  digestOf,
  expectedObjects,
  migrationFiles,
  readMigration,
  RECORD,
} from "../migrations/files.ts";
import type { Wrangler } from "./wrangler.ts";

type Row = Record<string, string>;

/**
 * Applies what is due in one import, which D1 does as a whole or not at all. It does not split an
 * import's triggers wrongly, as it may those of `d1 migrations apply`.
 */
export async function applyMigrations(wrangler: Wrangler): Promise<void> {
  const applied = await query(wrangler, `${RECORD}; SELECT name FROM d1_migrations`);
  const done = new Set(applied.map(({ name }) => name));
  const due = migrationFiles().filter((file) => !done.has(file));
  if (due.length === 0) return;
  const dir = mkdtempSync(join(tmpdir(), "migrations-"));
  try {
    const path = join(dir, "due.sql");
    const record = (file: string) => `INSERT INTO d1_migrations (name) VALUES ('${file}');\n`;
    writeFileSync(path, due.map((file) => `${readMigration(file)}\n${record(file)}`).join(""));
    await wrangler.must(["d1", "execute", "DB", "--remote", "--yes", "--file", path]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Names the objects that differ from those that the migrations make. */
export async function differences(wrangler: Wrangler): Promise<string[]> {
  const rows = await query(wrangler, OWN_OBJECTS);
  const present = new Map(rows.map((row) => [`${row["type"]} ${row["name"]}`, row["sql"] ?? ""]));
  const expected = expectedObjects();
  const missing = [...expected].flatMap(([object, digest]) =>
    digestOf(present.get(object) ?? "") === digest ? [] : [object],
  );
  return [...missing, ...[...present.keys()].filter((object) => !expected.has(object))];
}

/** Whether users may depend on secrets that were deployed with this database. */
export async function isUsed(wrangler: Wrangler): Promise<boolean> {
  return (await query(wrangler, "SELECT 1 FROM commit_groups LIMIT 1")).length > 0;
}

/** The rows of the last statement. */
async function query(wrangler: Wrangler, sql: string): Promise<Row[]> {
  const command = sql.replaceAll(/\s+/g, " ");
  const args = ["d1", "execute", "DB", "--remote", "--json", "--command", command];
  const results = JSON.parse((await wrangler.must(args)).stdout) as { results: Row[] }[];
  return results.at(-1)?.results ?? [];
}
