/** The migrations of a remote database, and whether it has the schema that the code expects. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OWN_OBJECTS } from "../../src/platform/schema-text.ts";
import { digestOf, expectedObjects, migrationFiles, readMigration } from "../migrations/files.ts";
import type { Wrangler } from "./wrangler.ts";

type Row = Record<string, string>;

/**
 * Applies what is due. D1 splits a file by rules of its own. If it fails at one, the file goes the
 * way of imports, which has another splitter. Throws if the failure left a part of a file, because
 * nothing can tell what of it there is to do.
 */
export async function applyMigrations(wrangler: Wrangler, database: string): Promise<void> {
  const applied = await wrangler(["d1", "migrations", "apply", database, "--remote"]);
  if (applied.code === 0) return;
  // Creating the table is the first thing that wrangler does, so without it nothing was applied.
  const names = await query(wrangler, database, "SELECT name FROM d1_migrations");
  if (names === undefined) throw new Error(applied.output);
  const done = new Set(names.map(({ name }) => name));
  const files = migrationFiles();
  for (const [index, file] of files.entries()) {
    if (done.has(file)) continue;
    const differing = await differences(wrangler, database, files.slice(0, index));
    if (differing.length > 0)
      throw new Error(
        `${file} was applied in part (${differing.slice(0, 3).join(", ")}). Of a database that is ` +
          `new: npm run wrangler -- d1 delete ${database}, and start again. Else: Time Travel.\n` +
          applied.output,
      );
    await importFile(wrangler, database, file);
  }
}

async function importFile(wrangler: Wrangler, database: string, file: string): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), "migration-"));
  try {
    const path = join(dir, file);
    const record = `INSERT INTO d1_migrations (name) VALUES ('${file}');\n`;
    writeFileSync(path, `${readMigration(file)}\n${record}`);
    await wrangler.must(["d1", "execute", database, "--remote", "--yes", "--file", path]);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Names the objects that differ from those that the migrations make. */
export async function differences(
  wrangler: Wrangler,
  database: string,
  files?: readonly string[],
): Promise<string[]> {
  const rows = await query(wrangler, database, OWN_OBJECTS.replaceAll(/\s+/g, " "));
  if (rows === undefined) throw new Error(`${database} cannot be read`);
  const present = new Map(rows.map((row) => [`${row["type"]} ${row["name"]}`, row["sql"] ?? ""]));
  const expected = expectedObjects(files);
  const missing = [...expected].flatMap(([object, digest]) =>
    digestOf(present.get(object) ?? "") === digest ? [] : [object],
  );
  return [...missing, ...[...present.keys()].filter((object) => !expected.has(object))];
}

/** Whether users may depend on secrets that were deployed with this database. */
export async function isUsed(wrangler: Wrangler, database: string): Promise<boolean> {
  const rows = await query(wrangler, database, "SELECT 1 FROM commit_groups LIMIT 1");
  return rows === undefined || rows.length > 0;
}

async function query(
  wrangler: Wrangler,
  database: string,
  sql: string,
): Promise<Row[] | undefined> {
  const args = ["d1", "execute", database, "--remote", "--json", "--command", sql];
  const { code, stdout } = await wrangler(args);
  if (code !== 0) return undefined;
  const [result] = JSON.parse(stdout) as [{ results: Row[] }];
  return result.results;
}
