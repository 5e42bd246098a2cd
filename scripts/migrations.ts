/** `npm run migrations` keeps migrations/ and the code that depends on them together. */
import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  migratedDatabase,
  migrationFiles,
  MIGRATIONS,
  RELEASED,
  sumOf,
} from "./migrations/files.ts";
import { dueMigrations } from "./migrations/generated.ts";
import { EXPECTED, expectedSource } from "./migrations/expected.ts";

const USAGE = `npm run migrations [-- release | mend "<type> <name>"]

Without a command: writes a new migration for each trigger that is generated from src and has
changed, and migrations/expected.json, with which cron compares the database.

  release                 freezes all files, at the commit that is checked out. Do it with each
                          release, because a database that has applied a file never reads it again
  mend "trigger quotes_open"   writes a migration that makes the object as it was, or removes it if
                          no migration makes it (alert schema_drift)`;

const [command, subject] = process.argv.slice(2);
if (command === undefined) write();
else if (command === "release") release();
else if (command === "mend" && subject !== undefined) mend(subject);
else {
  console.error(USAGE);
  process.exitCode = 2;
}

function write(): void {
  for (const { file, text, replaces } of dueMigrations()) {
    if (replaces !== undefined) rmSync(join(MIGRATIONS, replaces));
    writeFileSync(join(MIGRATIONS, file), text);
    console.log(`wrote migrations/${file}`);
  }
  writeFileSync(EXPECTED, expectedSource());
}

function release(): void {
  const commit = execFileSync("git", ["rev-parse", "HEAD"], { encoding: "utf8" }).trim();
  const lines = migrationFiles().map((name) => `${sumOf(name)}  ${name}`);
  writeFileSync(RELEASED, `# Released with ${commit}\n${lines.join("\n")}\n`);
  console.log(`${lines.length} files are frozen`);
}

function mend(object: string): void {
  const [type = "", name = ""] = object.split(" ");
  if (!/^(trigger|view|index)$/.test(type) || !/^\w+$/.test(name)) {
    console.error(
      "Only a trigger, a view or an index can be made again. A table: docs/handbook.md",
    );
    process.exitCode = 2;
    return;
  }
  const [row] = migratedDatabase()
    .prepare("SELECT sql FROM sqlite_master WHERE type = ? AND name = ?")
    .all(type, name);
  const number = String(Number(migrationFiles().at(-1)?.slice(0, 4)) + 1).padStart(4, "0");
  const file = `${number}_mend_${name}.sql`;
  const create = row === undefined ? "" : `${String(row["sql"])};\n`;
  writeFileSync(
    join(MIGRATIONS, file),
    `-- Makes the database as the migrations before say.
DROP ${type.toUpperCase()} IF EXISTS ${name};\n${create}`,
  );
  writeFileSync(EXPECTED, expectedSource());
  console.log(`wrote migrations/${file}. Apply it: npm run wrangler -- d1 migrations apply …`);
}
