/**
 * A copy outside the account: the database's export, and the archive's objects with their digests.
 * The list comes from the export, so the objects are those that this database needs.
 */
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { constants, DatabaseSync } from "node:sqlite";
import { decodeSeal } from "../../src/archive/seal-format.ts";
import { Room } from "../../src/platform/room.ts";
import type { CallObject } from "./objects.ts";
import { type Run, wranglerOf } from "./wrangler.ts";

type ArchiveObject = { readonly key: string; readonly sha256: string; readonly bytes: number };

/** Objects on their way. Cloudflare's API takes 1 200 calls in five minutes. */
const CALLERS = 8;

/** Objects never change, so a repeated backup fetches only new ones. */
export async function backup(given: {
  readonly wrangler: Run;
  readonly callObject: CallObject;
  readonly out: string;
}): Promise<{ objects: number; fetched: number }> {
  const { callObject, out } = given;
  const wrangler = wranglerOf(given.wrangler);
  // Emails and hashes are in it, also if the directory exists and others may read that.
  process.umask(0o077);
  mkdirSync(out, { recursive: true });
  const path = join(out, "database.sql");
  const began = new Date();
  await wrangler.must(["d1", "export", "DB", "--remote", "--output", `${path}.next`]);
  const objects = objectsOf(`${path}.next`);
  // What was made later is in no export (records.ts).
  utimesSync(`${path}.next`, began, began);
  renameSync(`${path}.next`, path);
  writeFileSync(join(out, "objects.json"), `${JSON.stringify(objects, null, 2)}\n`);
  let fetched = 0;
  await forEachObject(objects, async ({ key, sha256 }) => {
    const file = join(out, "archive", key);
    if (existsSync(file) && isSeal(readFileSync(file), sha256)) return;
    const bytes = await callObject(key);
    if (bytes === undefined || !isSeal(bytes, sha256))
      throw new Error(`${key} differs from its row in the database`);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(`${file}.next`, bytes);
    renameSync(`${file}.next`, file);
    fetched++;
  });
  return { objects: objects.length, fetched };
}

export async function forEachObject(
  objects: readonly ArchiveObject[],
  work: (object: ArchiveObject) => Promise<void>,
): Promise<void> {
  const room = new Room(CALLERS);
  await Promise.all(
    objects.map(async (object) => {
      await room.enter(1);
      await work(object).finally(() => room.leave(1));
    }),
  );
}

/** Whether the service would read it. */
export function isSeal(bytes: Uint8Array, sha256: string): boolean {
  try {
    decodeSeal(bytes, sha256);
    return true;
  } catch {
    return false;
  }
}

/**
 * Throws if the export does not make a database, or would write elsewhere: a thief of the account
 * chooses its statements and keys.
 */
export function objectsOf(path: string): ArchiveObject[] {
  const db = new DatabaseSync(":memory:");
  db.setAuthorizer((action) =>
    action === constants.SQLITE_ATTACH ? constants.SQLITE_DENY : constants.SQLITE_OK,
  );
  db.exec(readFileSync(path, "utf8"));
  refuseRounded(db);
  return db
    .prepare(
      `SELECT epoch, number, lower(hex(sha256)) AS sha256, bytes
       FROM journal_seals ORDER BY number`,
    )
    .all()
    .map((row) => {
      const [epoch, number] = [Number(row["epoch"]), Number(row["number"])];
      if (!Number.isSafeInteger(epoch) || !Number.isSafeInteger(number))
        throw new Error("a seal of the export has an epoch or number that is no integer");
      const key = `journal/${epoch}/${number}`;
      return { key, sha256: String(row["sha256"]), bytes: Number(row["bytes"]) };
    });
}

/**
 * D1 exports an integer above 2^53 as JavaScript rounds it, so a copy with one has other amounts.
 * What is rounded stays at 2^53 or above.
 */
function refuseRounded(db: DatabaseSync): void {
  const columns = db
    .prepare(
      `SELECT t.name AS tbl, c.name AS col FROM sqlite_schema t, pragma_table_info(t.name) c
       WHERE t.type = 'table' AND c.type = 'INTEGER'`,
    )
    .all();
  for (const { tbl, col } of columns) {
    const [table, column] = [tbl, col].map((name) => `"${String(name).replaceAll('"', '""')}"`);
    const large = `typeof(${column}) <> 'text' AND abs(${column}) >= 9007199254740992`;
    if (db.prepare(`SELECT 1 FROM ${table} WHERE ${large} LIMIT 1`).get() !== undefined)
      throw new Error(
        `${String(tbl)}.${String(col)} has an integer above 2^53, which D1's export rounds. The ` +
          "export stays beside the last backup, as database.sql.next",
      );
  }
}
