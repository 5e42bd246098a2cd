import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { listRecords, RETENTION_MS, pruneRecords } from "../../src/custody/recovery-records.ts";
import {
  pastRetention,
  readRecords,
  type WithdrawalRecord,
} from "../../src/custody/payer/withdrawal-record.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { insertWithdrawal } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";

const db = env.DB;

async function withdrawal(status: string, updatedAt: number): Promise<WithdrawalRecord> {
  const { userId } = await newUser();
  const { withdrawalId, paymentId } = await insertWithdrawal(userId, { status, updatedAt });
  return {
    paymentId,
    withdrawalId,
    jobId: uuidv7(),
    userId,
    clientWithdrawalId: withdrawalId,
    asset: "USDC",
    amount: "1",
    to: "00",
    createdAt: 0,
  };
}

it("names the members that a restore reads a month later", async () => {
  const { userId } = await newUser();
  const inserted = await insertWithdrawal(userId, { updatedAt: 5 });
  expect(await readRecords(db, [inserted.withdrawalId])).toEqual([
    {
      paymentId: inserted.paymentId,
      withdrawalId: inserted.withdrawalId,
      jobId: expect.any(String),
      userId,
      clientWithdrawalId: expect.any(String),
      asset: "usdc",
      amount: expect.stringMatching(/^\d+$/),
      to: expect.stringMatching(/^[0-9a-f]{40}$/),
      createdAt: expect.any(Number),
    },
  ]);
});

it("deletes records only of withdrawals that ended before the retention period", async () => {
  const now = Date.now();
  const old = [
    await withdrawal("settled", now - RETENTION_MS - 1_000),
    await withdrawal("failed", now - RETENTION_MS - 1_000),
  ];
  const young = [
    await withdrawal("settled", now - RETENTION_MS + 60_000),
    await withdrawal("submitted", 0),
    await withdrawal("queued", 0),
  ];
  // A record whose withdrawal is not in the database, as after a restore.
  const unknown = {
    ...(young[0] as WithdrawalRecord),
    paymentId: "0xff",
    withdrawalId: uuidv7(),
  };
  const kept = [...young, unknown];
  await runInDurableObject(env.PAYER.getByName(uuidv7()), async (_, { storage }) => {
    for (const record of [...old, ...kept])
      await storage.put(`withdrawal:${record.paymentId}`, record);
    const prune = () =>
      pruneRecords<WithdrawalRecord>(storage, "withdrawal:", (records) =>
        pastRetention(db, records),
      );
    await prune();
    const left: WithdrawalRecord[] = [];
    for await (const page of listRecords<WithdrawalRecord>(storage, "withdrawal:"))
      left.push(...page);
    expect(left.map(({ paymentId }) => paymentId).toSorted()).toEqual(
      kept.map(({ paymentId }) => paymentId).toSorted(),
    );
  });
});

it("prunes one page a minute, and starts again an hour after the last", async () => {
  await runInDurableObject(env.PAYER.getByName(uuidv7()), async (_, { storage }) => {
    const keys = Array.from(
      { length: 1_100 },
      (_item, index) => `withdrawal:${String(index).padStart(5, "0")}`,
    );
    for (let start = 0; start < keys.length; start += 128)
      await storage.put(
        Object.fromEntries(keys.slice(start, start + 128).map((key) => [key, { key }])),
      );
    const pages: number[] = [];
    const prune = async () => {
      await pruneRecords(storage, "withdrawal:", async (records) => {
        pages.push(records.size);
        return [...records.keys()].filter((key) => key.endsWith("0"));
      });
    };
    await prune();
    await prune();
    expect(pages).toEqual([500]);
    const prunedBefore = async (ms: number) => {
      const turn = await storage.get<{ at: number; after: string | null }>("pruned:withdrawal:");
      await storage.put("pruned:withdrawal:", { ...turn, at: Date.now() - ms });
      await prune();
    };
    await prunedBefore(61_000);
    await prunedBefore(61_000);
    await prunedBefore(61_000);
    expect(pages).toEqual([500, 500, 100]);
    await prunedBefore(3_601_000);
    expect(pages).toEqual([500, 500, 100, 500]);
    expect((await storage.list({ prefix: "withdrawal:" })).size).toBe(1_100 - 110);
  });
});
