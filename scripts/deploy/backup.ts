/**
 * A copy outside the account: the database's export, and the archive's objects with their digests.
 * The list comes from the export, so the objects are those that this database needs.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { constants, DatabaseSync } from "node:sqlite";
import { type Run, wranglerOf } from "./wrangler.ts";

type ArchiveObject = { readonly key: string; readonly sha256: string; readonly bytes: number };

/** Objects never change, so a repeated backup fetches only new ones. */
export async function backup(given: {
  readonly wrangler: Run;
  readonly database: string;
  readonly bucket: string;
  readonly out: string;
}): Promise<{ objects: number; fetched: number }> {
  const { database, bucket, out } = given;
  const wrangler = wranglerOf(given.wrangler);
  // Emails and hashes are in it, also if the directory exists and others may read that.
  process.umask(0o077);
  mkdirSync(out, { recursive: true });
  const path = join(out, "database.sql");
  await wrangler.must(["d1", "export", database, "--remote", "--output", `${path}.next`]);
  const objects = objectsOf(`${path}.next`);
  renameSync(`${path}.next`, path);
  writeFileSync(join(out, "objects.json"), `${JSON.stringify(objects, null, 2)}\n`);
  let fetched = 0;
  for (const { key, sha256 } of objects) {
    const file = join(out, "archive", key);
    if (existsSync(file) && digestOf(file) === sha256) continue;
    mkdirSync(dirname(file), { recursive: true });
    const object = `${bucket}/${key}`;
    await wrangler.must(["r2", "object", "get", object, "--remote", "--file", `${file}.next`]);
    if (digestOf(`${file}.next`) !== sha256)
      throw new Error(`${object} differs from its row in the database`);
    renameSync(`${file}.next`, file);
    fetched++;
  }
  return { objects: objects.length, fetched };
}

/**
 * Throws if the export does not make a database, or would write elsewhere: a thief of the account
 * chooses its statements and keys.
 */
function objectsOf(path: string): ArchiveObject[] {
  const db = new DatabaseSync(":memory:");
  db.setAuthorizer((action) =>
    action === constants.SQLITE_ATTACH ? constants.SQLITE_DENY : constants.SQLITE_OK,
  );
  db.exec(readFileSync(path, "utf8"));
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

function digestOf(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}
