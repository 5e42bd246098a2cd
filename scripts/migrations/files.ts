/** The files of migrations/, and the database that they make. */
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { OWN_OBJECTS, schemaText } from "../../src/platform/schema-text.ts";

export const MIGRATIONS = join(import.meta.dirname, "../../migrations");
/** Checksums of the files that a release contained, as `sha256sum` writes them. */
export const RELEASED = join(MIGRATIONS, "released.sha256");

/** The same table that wrangler makes, so that `wrangler d1 migrations list` can read it. */
export const RECORD = `CREATE TABLE IF NOT EXISTS d1_migrations(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT UNIQUE,
  applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL
)`;

export function migrationFiles(): string[] {
  return readdirSync(MIGRATIONS)
    .filter((name) => name.endsWith(".sql"))
    .toSorted();
}

export function readMigration(name: string): string {
  return readFileSync(join(MIGRATIONS, name), "utf8");
}

/** An empty database after these migrations, or all. */
export function migratedDatabase(files: readonly string[] = migrationFiles()): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  for (const name of files) db.exec(readMigration(name));
  return db;
}

/** The last file that contains a text. Of a trigger's texts only that one is in force. */
export function lastFileWith(text: string): string | undefined {
  return migrationFiles().findLast((file) => readMigration(file).includes(text));
}

/** `{ "trigger quotes_open": digest }` of every object that the migrations make. */
export function expectedObjects(files?: readonly string[]): Map<string, string> {
  const rows = migratedDatabase(files).prepare(OWN_OBJECTS).all();
  return new Map(
    rows.map(({ type, name, sql }) => [`${String(type)} ${String(name)}`, digestOf(String(sql))]),
  );
}

export function digestOf(sql: string): string {
  return createHash("sha256").update(schemaText(sql)).digest("hex").slice(0, 32);
}

/** File name → SHA-256 of the files that must not change any more, and the commit that had them. */
export function readReleased(): { commit: string; files: Map<string, string> } {
  const [first = "", ...lines] = readFileSync(RELEASED, "utf8").trim().split("\n");
  return {
    commit: first.replace(/^# Released with /, ""),
    files: new Map(
      lines.map((line) => {
        const [sum = "", name = ""] = line.split("  ");
        return [name, sum] as const;
      }),
    ),
  };
}

export function sumOf(name: string): string {
  return createHash("sha256").update(readMigration(name)).digest("hex");
}
