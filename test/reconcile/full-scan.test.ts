/** The full scan of the reconciliation while the archive takes what it reads. */
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { releaseRound } from "../../src/archive/release.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { settings } from "../support/http.ts";
import { withStatements } from "../support/slow-database.ts";
import { newUser } from "../support/users.ts";
import { SealedJournal, Sealing } from "../archive/sealing.ts";

const journal = new SealedJournal(env.SCANNED_DB, "scanned");
const { db } = journal;
const sealing = new Sealing(journal);

beforeAll(() => journal.open());

const scan = (through: D1Database, full = false) =>
  reconcile(through, { macKeys: settings(), chains: [], full });

const isFullScan = async () =>
  (await journal.count("ledger_checkpoints WHERE mark = 'running'")) > 0;

/** Seals and releases what the reconciliation has scanned, without scanning further. */
async function releaseScanned(): Promise<void> {
  await scheduler.wait(5);
  while ((await sealing.round()).status === "sealed");
  const place = { db, bucket: sealing.bucket, settings: settings() };
  const release = { ...place, lagMs: 0, matchesMs: 86_400_000 };
  while ((await releaseRound(release)).status !== "idle");
}

it.each([
  ["before it compares a chunk", "lag(after)"],
  ["before it leaves a chunk behind", "ON CONFLICT (scan, account_id)"],
  ["before it chooses a chunk", "iif(c.mark"],
])("continues a full scan %s that is released meanwhile", async (_when, text) => {
  await journal.trade();
  await newUser({ usdc: 1n }, db);
  const { full_finished_at: earlier } = await scan(db);
  const before = await journal.count("journal_seals WHERE released_at IS NOT NULL");
  let interrupted = false;
  const meanwhile = withStatements(db, async (texts) => {
    if (interrupted || !texts.some((one) => one.includes(text)) || !(await isFullScan())) return;
    interrupted = true;
    await releaseScanned();
  });
  const result = await scan(meanwhile, true);
  expect(await journal.count("journal_seals WHERE released_at IS NOT NULL")).toBe(before + 1);
  expect(result).toMatchObject({ ok: true, differences: [] });
  expect(Date.parse(result.full_finished_at ?? "")).toBeGreaterThan(Date.parse(earlier ?? ""));
  expect(await scan(db, true)).toMatchObject({
    ok: true,
    differences: [],
  });
});

it("ends a full scan although transfers are posted faster than it reads", async () => {
  await journal.trade();
  let posted = 0;
  const busy = withStatements(db, async (texts) => {
    if (posted === 20 || !texts.some((text) => text.includes("iif(c.mark"))) return;
    if (!(await isFullScan())) return;
    posted++;
    await newUser({ usdc: 1n }, db);
  });
  expect(await scan(busy, true)).toMatchObject({ differences: [] });
  expect(posted).toBeLessThan(4);
});

it("passes commit groups whose records were deleted in one step", async () => {
  await journal.trade();
  await all(
    db,
    sql`INSERT INTO commit_groups (seq, group_id, at, voided)
      SELECT seq + 5000000, randomblob(16), at, 0 FROM commit_groups ORDER BY seq DESC LIMIT 1`,
  );
  await journal.trade();
  let statements = 0;
  const counted = withStatements(db, async (texts) => {
    statements += texts.length;
  });
  expect(await scan(counted, true)).toMatchObject({
    ok: true,
    differences: [],
  });
  expect(statements).toBeLessThan(1_000);
});
