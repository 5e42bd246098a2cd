/** The sealer as an object, with histories of the deployment: one that always throws. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { config } from "../../src/platform/config.ts";
import { beforeAll, expect, it, vi } from "vitest";
import { historyName, oldRows } from "../../src/archive/ask-history.ts";
import { History } from "../../src/archive/history-object.ts";
import { releaseRound } from "../../src/archive/release.ts";
import { SEALER_NAME } from "../../src/archive/watch-sealer.ts";
import { Sealer } from "../../src/reconcile/scanning-sealer.ts";
import { NEWEST, readEntries } from "../../src/ledger/history.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { edit } from "../support/ledger.ts";
import { command, commitCommand } from "../support/market.ts";
import { answerAlert } from "../support/pager.ts";
import type { TestUser } from "../support/users.ts";
import { SealedJournal } from "./sealing.ts";
import { itInRelease } from "../support/depth.ts";

const journal = new SealedJournal(env.SEALER_DB, "sealer");
const { db, bucket } = journal;
beforeAll(() => journal.open());

/** The objects of histories, with the database and the archive of this file. */
const histories = {
  getByName: (name: string) => {
    const call = <Result>(use: (history: History) => Promise<Result>) =>
      runInDurableObject(env.HISTORY.getByName(name), (_: History, ctx) =>
        use(new History(ctx, { ...env, DB: db, ARCHIVE: bucket as R2Bucket })),
      );
    return {
      follow: (...args: Parameters<History["follow"]>) => call((one) => one.follow(...args)),
      query: (...args: Parameters<History["query"]>) => call((one) => one.query(...args)),
    };
  },
};
/** Ended data is sealed after a second. Safe casts: only these methods are called. */
const SECONDS = {
  ...env,
  DB: db,
  ARCHIVE: bucket as R2Bucket,
  HISTORY: histories as unknown as Env["HISTORY"],
  HOT_WINDOWS_DIVISOR: "3600",
};
const COLD_MS = 1_100;
const stub = env.SEALER.getByName(uuidv7());

/** A round of a sealer with windows of seconds, in an object of the deployment. */
async function round(settings = SECONDS): Promise<void> {
  await journal.scanned();
  await runInDurableObject(stub, async (_: Sealer, ctx) => {
    await new Sealer(ctx, settings).alarm();
    // The deployment's own sealer would run next, in the database of the other tests.
    await ctx.storage.deleteAlarm();
  });
}

const pageOf = ({ userId }: TestUser) =>
  readEntries(
    db,
    userId,
    {},
    { before: NEWEST, limit: 50 },
    oldRows((name) => histories.getByName(name), userId),
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
  const { maker: broken, book, openRequestId } = await journal.trade();
  const { maker: other } = await journal.trade();
  const [mine, others] = [await pageOf(broken), await pageOf(other)];
  // Each statement on the table of seals now fails, also after a restart.
  const history = env.HISTORY.getByName(historyName(broken.userId.replaceAll("-", "")));
  await runInDurableObject(history, (_, { storage }) => {
    storage.sql.exec("DROP TABLE taken");
    storage.sql.exec("CREATE VIEW taken AS SELECT 1 AS other");
  });
  await scheduler.wait(COLD_MS);
  await round();
  expect(await countOf("delivered")).toBe(1);
  while (
    (await releaseRound({ db, bucket, settings: config(env), lagMs: 0, matchesMs: 0 })).status !==
    "idle"
  );
  expect(await countOf("released")).toBe(1);

  await expect(pageOf(broken)).rejects.toMatchObject({ status: 503 });
  expect(await pageOf(other)).toMatchObject({ rows: others.rows, next: others.next });
  // The next seal has entries of the same user.
  const quote = command.placeQuote(broken, openRequestId, 830_000, 300);
  await commitCommand(book, quote, db);
  await commitCommand(book, command.cancelQuote(broken, quote.quoteId), db);
  await scheduler.wait(COLD_MS);
  await round();
  expect(await countOf("delivered")).toBe(2);
  expect(
    await all(db, sql`SELECT kind FROM alerts WHERE resolved_at IS NULL AND kind LIKE '%seal%'`),
  ).toEqual([]);

  await runInDurableObject(history, (_, { storage }) => {
    storage.sql.exec("DROP VIEW taken");
  });
  await runInDurableObject(history, (_, ctx) => {
    ctx.abort("restarted by the test");
  }).catch(() => {});
  const page = await pageOf(broken);
  expect(page.rows.slice(-mine.rows.length)).toEqual(mine.rows);
});

itInRelease("seals on while a history never answers", async () => {
  const { maker } = await journal.trade();
  await scheduler.wait(COLD_MS);
  const delivered = await countOf("delivered");
  const hanging = { getByName: () => ({ follow: () => new Promise(() => {}) }) };
  // Safe cast: only this method is called.
  await round({ ...SECONDS, HISTORY: hanging as unknown as Env["HISTORY"] });
  expect(await countOf("delivered")).toBe(delivered + 1);
  expect((await pageOf(maker)).rows).not.toEqual([]);
});

it("delivers nothing while a row contradicts the archive, and goes on when it is mended", async () => {
  const { maker } = await journal.trade();
  await scheduler.wait(COLD_MS);
  await round();
  const delivered = await countOf("delivered");
  const { rows } = await pageOf(maker);
  const owner = sql`unhex(${maker.userId.replaceAll("-", "")})`;
  await edit(db, "sealed_owners", [sql`DELETE FROM sealed_owners WHERE owner = ${owner}`]);
  await journal.trade();
  await scheduler.wait(COLD_MS);
  await round();
  expect(await countOf("delivered")).toBe(delivered);
  const mend = () => runInDurableObject(stub, (_: Sealer, ctx) => new Sealer(ctx, SECONDS).mend());
  const bindings = { SEALER: { getByName: () => ({ mend }) } };
  const result = await answerAlert("history_cut", SEALER_NAME, { db, bindings, end: round });
  expect(result).toEqual({ mended: [maker.userId.replaceAll("-", "")] });
  expect(await countOf("delivered")).toBe(delivered + 1);
  expect((await pageOf(maker)).rows).toEqual(rows);
});
