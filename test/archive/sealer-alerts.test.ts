/** What stops the sealer reaches an operator, and closes when its cause has gone. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it, vi } from "vitest";
import { SEALER_NAME as subject } from "../../src/archive/sealer-name.ts";
import { watchSealer } from "../../src/archive/watch-sealer.ts";
import { Sealer } from "../../src/reconcile/scanning-sealer.ts";
import { first, type Sql, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { memoryBucket } from "../support/audit-bucket.ts";
import { edit } from "../support/ledger.ts";
import { newPager } from "../support/pager.ts";
import { SealedJournal } from "./sealing.ts";

vi.setConfig({ testTimeout: 60_000 });

const journal = new SealedJournal(env.ALERTED_DB, "alerted");
const { db, bucket } = journal;
beforeAll(() => journal.open());

/** Ended data is sealed after a second, and released 5 s later. */
const HOT_WINDOWS_DIVISOR = "3600";
const COLD_MS = 1_100;
const RELEASE_MS = 5_100;
const asleep = { getByName: () => ({ follow: async () => {} }) };
const stub = env.SEALER.getByName(uuidv7());

/** Safe cast: no other binding is used. */
const bindings = (change: object = {}) =>
  ({
    ...env,
    DB: db,
    ARCHIVE: bucket,
    HISTORY: asleep,
    HOT_WINDOWS_DIVISOR,
    ...change,
  }) as unknown as Env;

function inSealer<Result>(use: (sealer: Sealer) => Promise<Result>, change?: object) {
  return runInDurableObject(stub, async (_: Sealer, ctx) => {
    const result = await use(new Sealer(ctx, bindings(change)));
    // The deployment's own sealer would run next, in the database of the other tests.
    await ctx.storage.deleteAlarm();
    return result;
  });
}

async function round(): Promise<void> {
  await journal.scanned();
  await inSealer((sealer) => sealer.alarm());
}

/** Trades something that the next round seals. */
async function traded(): Promise<void> {
  await journal.trade();
  await scheduler.wait(COLD_MS);
}

/** The sealer and the audit log as the operator's `restore` sees them. */
const RESTORED = {
  SEALER: {
    getByName: () => ({
      lost: () => inSealer((sealer) => sealer.lost()),
      highestTransfer: () => inSealer((sealer) => sealer.highestTransfer()),
      reopen: () => inSealer((sealer) => sealer.reopen()),
    }),
  },
  AUDIT: memoryBucket(),
  CHAINS: "[]",
  VENUES: "[]",
};
const lastSeal = () =>
  first<{ epoch: number; number: number }>(
    db,
    sql`SELECT epoch, number FROM journal_seals ORDER BY number DESC LIMIT 1`,
  );

it("sealer_behind: a transfer is not sealed in time", async () => {
  await journal.trade();
  const pager = await newPager(db);
  const about = { kind: "sealer_behind", subject } as const;
  const aged = (change: Sql) => edit(db, "transfers", [sql`UPDATE transfers SET at = ${change}`]);
  const watch = () => watchSealer(db, { HOT_WINDOWS_DIVISOR: 3_600 });
  await aged(sql`at - 7200000`);
  await watch();
  await pager.expectRaised(about);
  await aged(sql`at + 7200000`);
  await watch();
  await pager.expectResolved(about);
});

it("sealer_failing: ten rounds fail, as when the bucket is away", async () => {
  await traded();
  await journal.scanned();
  const pager = await newPager(db);
  const about = { kind: "sealer_failing", subject } as const;
  const away = () => Promise.reject(new Error("away"));
  const change = { ARCHIVE: { get: away, put: away, head: away } };
  await inSealer(async (sealer) => {
    for (let count = 0; count < 10; count++) await sealer.alarm();
  }, change);
  await pager.expectRaised(about);
  await round();
  await pager.expectResolved(about);
});

it("archive_damaged: an object is not what its row states", async () => {
  const { epoch = 0, number = 0 } = (await lastSeal()) ?? {};
  const key = `journal/${epoch}/${number}`;
  const stored = await bucket.get(key);
  const original = (await stored?.arrayBuffer()) ?? new ArrayBuffer(0);
  expect(original.byteLength).toBeGreaterThan(0);
  await bucket.put(key, "another object");
  await scheduler.wait(RELEASE_MS);
  const pager = await newPager(db);
  const about = { kind: "archive_damaged", subject } as const;
  await round();
  await pager.expectRaised(about);
  await bucket.put(key, original);
  await round();
  await pager.expectResolved(about);
});

it("seal_mismatch: the next seal's object is another one, until restore", async () => {
  const { epoch = 0, number = 0 } = (await lastSeal()) ?? {};
  await bucket.put(`journal/${epoch}/${number + 1}`, "another object");
  await traded();
  const pager = await newPager(db);
  const about = { kind: "seal_mismatch", subject } as const;
  await round();
  await pager.expectRaised(about);
  expect((await pager.runNamed(about, RESTORED)).problem).toBeUndefined();
  await pager.expectResolved(about);
  await round();
  expect(await lastSeal()).toEqual({ epoch: epoch + 1, number: number + 1 });
});

it("journal_restored: the database lacks a seal, until restore", async () => {
  const { number = 0 } = (await lastSeal()) ?? {};
  const pager = await newPager(db);
  const about = { kind: "journal_restored", subject } as const;
  await edit(db, "journal_seals", [sql`DELETE FROM journal_seals WHERE number = ${number}`]);
  await round();
  await pager.expectRaised(about);
  expect((await pager.runNamed(about, RESTORED)).problem).toBeUndefined();
  await pager.expectResolved(about);
});
