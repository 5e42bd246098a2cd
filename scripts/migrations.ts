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
import { parseArgs } from "node:util";
import { commandText } from "../src/platform/command-text.ts";
import { EXPECTED, expectedSource } from "./migrations/expected.ts";

const USAGE = `npm run migrations [-- release | mend "<type> <name>"]

Without a command: writes a new migration for each trigger that is generated from src and has
changed, and migrations/expected.json, with which cron compares the database.

  release                 freezes all files, at the commit that is checked out. Do it with each
                          release, because a database that has applied a file never reads it again
  mend "trigger quotes_open" [--env <name>]   writes mend.sql, which makes the object as migrations/
                          do, or removes one that they do not make (alert schema_drift)`;

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { env: { type: "string", default: "" } },
});
const [command, subject] = positionals;
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
  const create = row === undefined ? "" : `${String(row["sql"])};\n`;
  const file = "mend.sql";
  writeFileSync(file, `DROP ${type.toUpperCase()} IF EXISTS ${name};\n${create}`);
  const local = values.env === "" ? ["--local"] : [];
  const words = ["d1", "execute", "DB", "--file", file, "--yes", ...local];
  const apply = commandText({ DEPLOY_ENV: values.env }, "wrangler", ...words);
  console.log(`wrote ${file}. Read it, then run: ${apply}`);
}
