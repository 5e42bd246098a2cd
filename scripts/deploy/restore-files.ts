/** Puts a backup into an empty account, and deploys. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { forEachObject, isSeal, objectsOf } from "./backup.ts";
import { isUsed } from "./database.ts";
import { deploy, type Deployment, prepare, secretsPath } from "./deploy.ts";
import { objectCaller } from "./objects.ts";

/** The database before the Worker, whose cron would write to it, and the objects that it names. */
export async function restoreFiles(deployment: Deployment, from: string): Promise<void> {
  if (!existsSync(secretsPath(deployment)))
    throw new Error(`Put the copy of ${secretsPath(deployment)} from your secret store there.`);
  const path = join(from, "database.sql");
  const objects = objectsOf(path);
  const { settings, template, step, wrangler } = await prepare(deployment);
  const hasTables = () => isUsed(wrangler).catch(() => false);
  await step("database from the backup", hasTables, async () => {
    await wrangler.must(["d1", "execute", "DB", "--file", path, "--remote", "--yes"]);
  });
  const bucket = template.r2_buckets.find(({ binding }) => binding === "ARCHIVE")?.bucket_name;
  const callObject = await objectCaller(wrangler, bucket ?? "", settings);
  await forEachObject(objects, async ({ key, sha256 }) => {
    const there = await callObject(key);
    if (there === undefined) await callObject(key, readFileSync(join(from, "archive", key)));
    else if (!isSeal(there, sha256)) throw new Error(`The archive has another ${key}`);
  });
  deployment.log(`done  ${objects.length} objects`);
  await deploy(deployment);
}
