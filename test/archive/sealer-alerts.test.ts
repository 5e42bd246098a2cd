/** What stops the sealer reaches an operator, and closes when its cause has gone. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it, vi } from "vitest";
import { SEALER_NAME as subject } from "../../src/archive/watch-sealer.ts";
import { watchSealer } from "../../src/archive/watch-sealer.ts";
import { Sealer } from "../../src/reconcile/scanning-sealer.ts";
import { first, type Sql, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { memoryBucket } from "../support/audit-bucket.ts";
import { edit } from "../support/ledger.ts";
import { answerAlert } from "../support/pager.ts";
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
  const aged = (change: Sql) => edit(db, "transfers", [sql`UPDATE transfers SET at = ${change}`]);
  const watch = () => watchSealer(db, { HOT_WINDOWS_DIVISOR: 3_600 });
  await aged(sql`at - 7200000`);
  await watch();
  const end = async () => {
    await aged(sql`at + 7200000`);
    await watch();
  };
  await answerAlert("sealer_behind", subject, { db, end });
});

it("sealer_failing: ten rounds fail, as when the bucket is away", async () => {
  await traded();
  await journal.scanned();
  const away = () => Promise.reject(new Error("away"));
  const change = { ARCHIVE: { get: away, put: away, head: away } };
  await inSealer(async (sealer) => {
    for (let count = 0; count < 10; count++) await sealer.alarm();
  }, change);
  await answerAlert("sealer_failing", subject, { db, end: round });
});

it("archive_damaged: an object is not what its row states", async () => {
  const { epoch = 0, number = 0 } = (await lastSeal()) ?? {};
  const key = `journal/${epoch}/${number}`;
  const stored = await bucket.get(key);
  const original = (await stored?.arrayBuffer()) ?? new ArrayBuffer(0);
  expect(original.byteLength).toBeGreaterThan(0);
  await bucket.put(key, "another object");
  await scheduler.wait(RELEASE_MS);
  await round();
  const end = async () => {
    await bucket.put(key, original);
    await round();
  };
  const found = await answerAlert("archive_damaged", subject, { db, bindings: bindings(), end });
  expect(found).toMatchObject({ ok: false });
});

it("seal_mismatch: the next seal's object is another one, until restore", async () => {
  const { epoch = 0, number = 0 } = (await lastSeal()) ?? {};
  await bucket.put(`journal/${epoch}/${number + 1}`, "another object");
  await traded();
  await round();
  await answerAlert("seal_mismatch", subject, { db, bindings: RESTORED });
  await round();
  expect(await lastSeal()).toEqual({ epoch: epoch + 1, number: number + 1 });
});

it("journal_restored: the database lacks a seal, until restore", async () => {
  const { number = 0 } = (await lastSeal()) ?? {};
  await edit(db, "journal_seals", [sql`DELETE FROM journal_seals WHERE number = ${number}`]);
  await round();
  await answerAlert("journal_restored", subject, { db, bindings: RESTORED });
});
