/** Applies migrations/ to a local D1 and records them as `wrangler d1 migrations apply` does. */
import { unstable_splitSqlQuery } from "./wrangler-library.ts";
import type { Miniflare } from "miniflare";
import { migrationFiles, readMigration, RECORD } from "../migrations/files.ts";

type Database = Awaited<ReturnType<Miniflare["getD1Database"]>>;

/** Returns the names of the applied migrations, in order. One batch applies and records each. */
export async function applyMigrations(database: Database): Promise<string[]> {
  await database.prepare(RECORD).run();
  const { results } = await database
    .prepare("SELECT name FROM d1_migrations")
    .all<{ name: string }>();
  const applied = new Set(results.map(({ name }) => name));
  const due = migrationFiles().filter((name) => !applied.has(name));
  for (const name of due) {
    const statements = unstable_splitSqlQuery(readMigration(name));
    await database.batch([
      ...statements.map((statement) => database.prepare(statement)),
      database.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(name),
    ]);
  }
  return due;
}
