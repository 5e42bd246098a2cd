/** Migrations go forward only, and the code knows the schema that they make. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { EXPECTED, expectedSource } from "../../scripts/migrations/expected.ts";
import {
  migrationFiles,
  readMigration,
  readReleased,
  sumOf,
} from "../../scripts/migrations/files.ts";
import { dueMigrations } from "../../scripts/migrations/generated.ts";
import { schemaText } from "../../src/platform/schema-text.ts";

const released = readReleased();
const later = migrationFiles().filter((name) => !released.files.has(name));

describe("migrations", () => {
  it.each([...released.files])("%s is as it was released", (name, sum) => {
    expect(sumOf(name)).toBe(sum);
  });

  it("come after those that were released", () => {
    expect(migrationFiles().slice(0, released.files.size)).toEqual([...released.files.keys()]);
  });

  it("make the generated triggers as src states them", () => {
    expect(dueMigrations(), "npm run migrations").toEqual([]);
  });

  it("make the schema that the code expects", () => {
    expect(readFileSync(EXPECTED, "utf8"), "npm run migrations").toBe(expectedSource());
  });

  // D1 splits a remote migration by rules of its own.
  it.each(later)("%s has a form that D1 splits as SQLite does", (name) => {
    const text = readMigration(name);
    expect(text.length).toBeLessThan(95_000);
    expect(text).not.toContain("\r");
    for (const [comment] of text.matchAll(/--.*$/gm)) expect(comment).not.toMatch(/[;'"]/);
    const code = schemaText(text);
    for (const [body] of code.matchAll(/CREATE TRIGGER .*?END;/gi)) {
      expect(body).toMatch(/ BEGIN .* END;$/);
      expect(body).not.toMatch(/\bCASE\b/i);
    }
  });
});

describe("schemaText", () => {
  it.each([
    ["CREATE  TABLE a\n(b)", "CREATE TABLE a (b)"],
    ["a -- why;\n b", "a b"],
    ["a '-- no  comment' b", "a '-- no  comment' b"],
    ["a 'it''s  --' -- end\nb", "a 'it''s  --' b"],
  ])("of %j leaves comments and white space out", (text, expected) => {
    expect(schemaText(text)).toBe(expected);
  });
});
