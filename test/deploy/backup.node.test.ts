import { createHash } from "node:crypto";
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { backup } from "../../scripts/deploy/backup.ts";
import type { Run } from "../../scripts/deploy/wrangler.ts";

const EXPORT = `CREATE TABLE journal_seals (number INTEGER, epoch INTEGER, sha256 BLOB, bytes INTEGER);
INSERT INTO journal_seals VALUES (1, 1, x'${sha256("one")}', 3), (2, 3, x'${sha256("two")}', 3);`;

let out: string;
let asked: string[];
beforeEach(() => {
  out = mkdtempSync(join(tmpdir(), "backup-"));
  asked = [];
});
afterEach(() => rmSync(out, { recursive: true, force: true }));

/** wrangler of an account with this export and these objects. */
const account =
  (sql: string, objects: Record<string, string>): Run =>
  async (args) => {
    const isExport = args[1] === "export";
    const path = args[args.indexOf(isExport ? "--output" : "--file") + 1] ?? "";
    if (!isExport) asked.push(args[3] ?? "");
    writeFileSync(path, isExport ? sql : (objects[args[3] ?? ""] ?? ""));
    return { code: 0, stdout: "", stderr: "" };
  };
const save = (sql: string, objects: Record<string, string>) =>
  backup({ wrangler: account(sql, objects), database: "acme", bucket: "archive", out });

const OBJECTS = { "archive/journal/1/1": "one", "archive/journal/3/2": "two" };

it("a backup has each object that the database names, fetched once", async () => {
  expect(await save(EXPORT, OBJECTS)).toEqual({ objects: 2, fetched: 2 });
  expect(await save(EXPORT, OBJECTS)).toEqual({ objects: 2, fetched: 0 });
  expect(asked).toEqual(Object.keys(OBJECTS));
  expect(readFileSync(join(out, "archive/journal/3/2"), "utf8")).toBe("two");
  expect(JSON.parse(readFileSync(join(out, "objects.json"), "utf8"))).toEqual([
    { key: "journal/1/1", sha256: sha256("one"), bytes: 3 },
    { key: "journal/3/2", sha256: sha256("two"), bytes: 3 },
  ]);
});

it("an object that is not what the database says ends it", async () => {
  const changed = { ...OBJECTS, "archive/journal/3/2": "other" };
  await expect(save(EXPORT, changed)).rejects.toThrow("journal/3/2 differs from its row");
});

it("an export that makes no database leaves the last backup", async () => {
  await save(EXPORT, OBJECTS);
  await expect(save("CREATE TABLE", OBJECTS)).rejects.toThrow("incomplete input");
  expect(readFileSync(join(out, "database.sql"), "utf8")).toBe(EXPORT);
});

it.each([
  ["a key with folders", "INSERT INTO journal_seals VALUES (1, '../../x', x'00', 1);", "epoch"],
  ["a number with folders", "INSERT INTO journal_seals VALUES ('../x', 1, x'00', 1);", "number"],
  ["a negative fraction", "INSERT INTO journal_seals VALUES (-0.5, 1, x'00', 1);", "number"],
  ["another file", "ATTACH '/tmp/backup-elsewhere' AS x;", "not authorized"],
])("%s in the export writes nothing", async (_, statement, reason) => {
  const sql = EXPORT.replace(/INSERT.*/s, statement);
  await expect(save(sql, {})).rejects.toThrow(reason);
  expect([asked, readdirSync(out)]).toEqual([[], ["database.sql.next"]]);
});

it("nobody else reads a backup, even in a directory that others may read", async () => {
  chmodSync(out, 0o755);
  await save(EXPORT, OBJECTS);
  for (const name of ["database.sql", "objects.json", "archive/journal/3/2"])
    expect(statSync(join(out, name)).mode & 0o077, name).toBe(0);
});

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
