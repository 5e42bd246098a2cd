import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { expect, it, onTestFinished } from "vitest";
import { objectsOf } from "../../scripts/deploy/backup.ts";
import { completed, writeSecrets } from "../../scripts/deploy/secrets.ts";
import { readSettings, wranglerConfig } from "../../scripts/deploy/settings.ts";
import { migrationFiles, readMigration, RECORD } from "../../scripts/migrations/files.ts";
import { encodeSeal } from "../../src/archive/seal-format.ts";
import { keyOf } from "../../src/archive/seal-store.ts";
import { slices } from "../archive/journal-model.ts";
import { itInRelease } from "../support/depth.ts";
import { changeSettings, newScene, runScript, secretsPath } from "./scene.ts";

/** Each start of wrangler takes seconds. */
const PATIENCE_MS = 600_000;

/** An account with a database and an archive of seals, as the sealer makes them. */
async function sealedScene() {
  const scene = await newScene();
  const { account } = scene.cloudflare;
  changeSettings(scene, { account_id: account.id });
  const db = account.addDatabase("acme-staging");
  const names = migrationFiles().map(
    (name) => `INSERT INTO d1_migrations (name) VALUES ('${name}');`,
  );
  db.exec([RECORD, ";", ...migrationFiles().map(readMigration), ...names].join("\n"));
  // The sealer's batch, of which these are only some rows.
  const guards = db
    .prepare(
      "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'journal_seals'",
    )
    .all();
  for (const { name } of guards) db.exec(`DROP TRIGGER ${String(name)}`);
  account.buckets.set("acme-staging-archive", { location: "weur", rules: [] });
  const insert = db.prepare(
    `INSERT INTO journal_seals (number, epoch, after_transfer, up_to_transfer, after_group,
       up_to_group, transfers, requests, quotes, matches, last_at, bytes, previous, sha256, sealed_at)
     VALUES (?, 1, 0, 1, 0, 1, 1, 1, 1, 1, 1, ?, x'00', ?, 1)`,
  );
  const stored = new Map<string, Uint8Array>();
  for (const [index, seal] of fc.sample(slices, { numRuns: 30, seed: 1 }).entries()) {
    const id = { epoch: 1, number: index + 1 };
    const { bytes, sha256 } = encodeSeal({ ...seal, ...id });
    insert.run(id.number, bytes.length, Buffer.from(sha256, "hex"));
    stored.set(keyOf(id), bytes);
    account.objects.set(`acme-staging-archive/${keyOf(id)}`, Buffer.from(bytes));
  }
  for (const { sql } of guards) db.exec(String(sql));
  db.exec("INSERT INTO commit_groups VALUES (1, x'00', 1, 0)");
  return { ...scene, db, stored, out: join(scene.root, "backup") };
}

itInRelease(
  "has every seal that the database names, as a reader of the archive would accept it",
  async () => {
    const scene = await sealedScene();
    const { cloudflare, stored, out, db } = scene;
    const backup = () => runScript(scene, {}, "backup.ts", "--env", "staging", "--out", out);
    const read = () => cloudflare.calls.filter((call) => call.includes("/objects/")).length;
    let failures = 3;
    cloudflare.fails = (call) => call.includes("/objects/") && failures-- > 0;
    expect(await backup()).toEqual({
      code: 0,
      lines: [`${out}: database.sql and 30 objects, 30 of them new`],
    });
    expect(read()).toBe(33);
    for (const [key, bytes] of stored)
      expect(Buffer.from(bytes).equals(readFileSync(join(out, "archive", key)))).toBe(true);
    for (const name of ["database.sql", "objects.json", "archive/journal/1/2"])
      expect(statSync(join(out, name)).mode & 0o077, name).toBe(0);

    rmSync(join(out, "archive/journal/1/2"));
    const path = "acme-staging-archive/journal/1/2";
    cloudflare.account.objects.set(path, Buffer.from(stored.get("journal/1/3") ?? []));
    const differs = await backup();
    expect(differs).toMatchObject({ code: 1 });
    expect(differs.lines.join("\n")).toContain("journal/1/2 differs from its row");
    expect(read()).toBe(34);
    expect(existsSync(join(out, "archive/journal/1/2"))).toBe(false);

    const last = readFileSync(join(out, "database.sql"), "utf8");
    db.exec("INSERT INTO login_attempts VALUES (x'00', x'00', 'v4:0', 9007199254740993, 0)");
    const rounded = await backup();
    expect(rounded).toMatchObject({ code: 1 });
    expect(rounded.lines.join("\n")).toContain("login_attempts.at has an integer above 2^53");
    expect(readFileSync(join(out, "database.sql"), "utf8")).toBe(last);
    expect(cloudflare.unknown).toEqual([]);
  },
  PATIENCE_MS,
);

itInRelease(
  "fills an empty account, and ends where the fake runs no Worker",
  async () => {
    const scene = await sealedScene();
    const { cloudflare, db, out, root } = scene;
    const { account } = cloudflare;
    const ran = (script: string, ...args: string[]) => runScript(scene, {}, script, ...args);
    const where = ["--env", "staging"];
    expect(await ran("backup.ts", ...where, "--out", out)).toMatchObject({ code: 0 });
    const objects = new Map(account.objects);
    for (const one of ["databases", "queues", "buckets", "objects", "workers"] as const)
      account[one].clear();
    const restore = () => ran("restore-account.ts", ...where, "--from", out);
    const without = await restore();
    expect(without.lines.join("\n")).toContain("from your secret store there");
    expect(account.databases.size).toBe(0);

    const settings = readSettings(root, "staging");
    const { secrets } = wranglerConfig(root, "staging", settings);
    writeSecrets(secretsPath(scene), completed(secrets.required, {}, settings));
    const ended = await restore();
    const text = ended.lines.join("\n");
    expect(ended.code).not.toBe(0);
    for (const line of [
      "done  database from the backup",
      "done  30 objects",
      "done  Worker acme-staging",
    ])
      expect(text).toContain(line);
    expect(account.objects).toEqual(objects);
    const schema = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name";
    const count = "SELECT count(*) AS n FROM journal_seals";
    for (const query of [schema, count])
      expect(account.db("acme-staging").prepare(query).all()).toEqual(db.prepare(query).all());
    expect(account.previews).toContain("acme-staging Operator");
    // Repeated, it changes nothing.
    const again = await restore();
    expect(again.lines).toContain("kept  database from the backup");
    expect(account.objects).toEqual(objects);
    expect(cloudflare.unknown).toEqual([]);
  },
  PATIENCE_MS,
);

it.each([
  ["a key with folders", "INSERT INTO journal_seals VALUES (1, '../../x', x'00', 1);", "epoch"],
  ["a number with folders", "INSERT INTO journal_seals VALUES ('../x', 1, x'00', 1);", "number"],
  ["a negative fraction", "INSERT INTO journal_seals VALUES (-0.5, 1, x'00', 1);", "number"],
  ["another file", "ATTACH '/tmp/backup-elsewhere' AS x;", "not authorized"],
  ["half of a statement", "CREATE TABLE", "incomplete input"],
])("%s in the export is refused", (_, statement, reason) => {
  const out = mkdtempSync(join(tmpdir(), "backup-"));
  onTestFinished(() => rmSync(out, { recursive: true, force: true }));
  const path = join(out, "database.sql");
  const table =
    "CREATE TABLE journal_seals (number INTEGER, epoch INTEGER, sha256 BLOB, bytes INTEGER)";
  writeFileSync(path, `${table};\n${statement}`);
  expect(() => objectsOf(path)).toThrow(reason);
});
