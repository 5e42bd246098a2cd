/** The sealer as an object, with histories of the deployment: one that always throws. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { coldEntries, historyName } from "../../src/archive/cold-entries.ts";
import { releaseRound } from "../../src/archive/release.ts";
import { Sealer } from "../../src/archive/sealer.ts";
import { NEWEST, readEntries } from "../../src/ledger/history.ts";
import { reconcile } from "../../src/ledger/reconcile.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { endWithdrawal, queueWithdrawal } from "../support/ledger.ts";
import { newUser, type TestUser } from "../support/users.ts";

const { DB: db } = env;
/** Ended data is sealed after a second. */
const SECONDS = { ...env, HOT_WINDOWS_DIVISOR: "3600" };
const COLD_MS = 1_100;
const stub = env.SEALER.getByName(uuidv7());

/** A round of a sealer with windows of seconds, in an object of the deployment. */
async function round(): Promise<void> {
  await reconcile(db, { chains: [] });
  await runInDurableObject(stub, (_: Sealer, ctx) => new Sealer(ctx, SECONDS).alarm());
}

async function userWithEntries(): Promise<TestUser> {
  const user = await newUser({ usdc: 1_000n });
  for (let count = 0; count < 3; count++)
    await endWithdrawal(await queueWithdrawal(user, "usdc", 10n), "Paid");
  return user;
}

const pageOf = ({ userId }: TestUser) =>
  readEntries(
    db,
    userId,
    {},
    { before: NEWEST, limit: 50 },
    coldEntries({ db, history: env.HISTORY }, userId),
  );

async function countOf(column: string): Promise<number> {
  const [row] = await all<{ n: number }>(
    db,
    sql`SELECT count(*) AS n FROM journal_seals
      WHERE iif(${column} = 'released', released_at, delivered_at) IS NOT NULL`,
  );
  return row?.n ?? 0;
}

vi.setConfig({ testTimeout: 60_000 });

it("seals on and serves all others while a history always throws", async () => {
  const [broken, other] = [await userWithEntries(), await userWithEntries()];
  const [mine, others] = [await pageOf(broken), await pageOf(other)];
  // Each statement on the table of blocks now fails, also after a restart.
  const history = env.HISTORY.getByName(historyName(broken.userId.replaceAll("-", "")));
  await runInDurableObject(history, (_, { storage }) => {
    storage.sql.exec("DROP TABLE blocks");
    storage.sql.exec("CREATE VIEW blocks AS SELECT 1 AS other");
  });
  await scheduler.wait(COLD_MS);
  await round();
  expect(await countOf("delivered")).toBe(1);
  while (
    (await releaseRound({ db, bucket: env.ARCHIVE, lagMs: 0, matchesMs: 0 })).status !== "idle"
  );
  expect(await countOf("released")).toBe(1);

  await expect(pageOf(broken)).rejects.toMatchObject({ status: 503 });
  expect(await pageOf(other)).toEqual(others);
  // The next seal has entries of the same user.
  await endWithdrawal(await queueWithdrawal(broken, "usdc", 10n), "Paid");
  await newUser({ usdc: 1n });
  await scheduler.wait(COLD_MS);
  await round();
  expect(await countOf("delivered")).toBe(2);
  expect(
    await all(db, sql`SELECT kind FROM alerts WHERE resolved_at IS NULL AND kind LIKE '%seal%'`),
  ).toEqual([]);

  await runInDurableObject(history, (_, { storage }) => {
    storage.sql.exec("DROP VIEW blocks");
  });
  await runInDurableObject(history, (_, ctx) => {
    ctx.abort("restarted by the test");
  }).catch(() => {});
  const page = await pageOf(broken);
  expect(page.rows.slice(-mine.rows.length)).toEqual(mine.rows);
});
