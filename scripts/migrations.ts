/**
 * `generate`: asks drizzle-kit for the next migration and makes its tables STRICT, which drizzle-kit cannot say.
 * `check`: fails when the tables in src/ and the migrations differ, or when a table is not STRICT.
 */
import { execFileSync } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";

const MIGRATIONS = "migrations";

const [mode, name] = process.argv.slice(2);
if (mode === "generate") generate();
else if (mode === "check") check();
else throw new Error("usage: migrations.ts generate [name] | check");

function generate(): void {
  drizzleKit(["generate", ...(name === undefined ? [] : ["--name", name])]);
  for (const file of sqlFiles(MIGRATIONS)) {
    const path = join(MIGRATIONS, file);
    const before = readFileSync(path, "utf8");
    const after = before.replace(/^(\s*\)\s*);$/gm, (line, close: string) =>
      line.includes("STRICT") ? line : `${close.trimEnd()} STRICT;`,
    );
    if (after !== before && before.includes("CREATE TABLE")) writeFileSync(path, after);
  }
}

function check(): void {
  // Inside the checkout, by a relative path: drizzle-kit takes no other, fails, and exits 0 all the same.
  mkdirSync(".stack", { recursive: true });
  const copy = mkdtempSync(join(".stack", "migrations-"));
  try {
    cpSync(MIGRATIONS, copy, { recursive: true });
    const before = sqlFiles(copy).length;
    const answer = drizzleKit([
      "generate",
      "--dialect",
      "sqlite",
      "--schema",
      "./src/*/tables.ts",
      "--out",
      copy,
    ]);
    if (!answer.includes("No schema changes") && sqlFiles(copy).length === before)
      fail(`drizzle-kit did not compare: ${answer}`);
    if (sqlFiles(copy).length !== before)
      fail("tables.ts and migrations/ differ: run `npm run migrations:generate`");
    for (const file of sqlFiles(MIGRATIONS)) {
      const text = readFileSync(join(MIGRATIONS, file), "utf8");
      const tables = text.match(/^CREATE TABLE/gm)?.length ?? 0;
      const strict = text.match(/^\) STRICT;/gm)?.length ?? 0;
      if (tables !== strict)
        fail(`${file}: every table must be STRICT (${strict} of ${tables} are)`);
    }
  } finally {
    rmSync(copy, { recursive: true });
  }
  console.log("migrations are in step with the tables");
}

function sqlFiles(folder: string): string[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith(".sql"))
    .toSorted();
}

function drizzleKit(args: string[]): string {
  return execFileSync("drizzle-kit", args, {
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8",
  });
}

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}
