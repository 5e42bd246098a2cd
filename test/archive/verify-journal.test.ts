import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, expect, it } from "vitest";
import { encodeSeal, type Seal } from "../../src/archive/seal-format.ts";
import { keyOf, readSeal, type SealBucket } from "../../src/archive/seal-store.ts";
import { lastSeals, type SealRow } from "../../src/archive/seal-row.ts";
import { verifyJournal } from "../../src/archive/verify-journal.ts";
import { raw, sql } from "../../src/platform/sql.ts";
import { edit } from "../support/ledger.ts";
import { bucketWith, SealedJournal, Sealing } from "./sealing.ts";

const journal = new SealedJournal(env.SEALED_DB, "sealed");
const { db } = journal;
const sealing = new Sealing(journal);
let last: SealRow;

beforeAll(() => journal.open());

beforeEach(async () => {
  await journal.trade();
  await sealing.sealAll();
  const [row] = await lastSeals(db, 1);
  if (row === undefined) throw new Error("nothing is sealed");
  last = row;
});

/** The archive with another object of the last seal. */
function withObject(bytes: Uint8Array<ArrayBuffer> | null): SealBucket {
  const get = (key: string) =>
    key === keyOf(last)
      ? Promise.resolve(bytes === null ? null : new Response(bytes))
      : sealing.bucket.get(key);
  return bucketWith(sealing.bucket, { get });
}

async function encoded(change: (seal: Seal) => Seal): Promise<Uint8Array<ArrayBuffer>> {
  return (await encodeSeal(change((await readSeal(sealing.bucket, last)).seal))).bytes;
}

it("verifies the whole chain, with transfers after it", async () => {
  await journal.trade();
  const report = await verifyJournal(db, sealing.bucket);
  expect(report).toMatchObject({ ok: true, next: null, discrepancies: [] });
  expect(report.verified).toBe(await journal.count("journal_seals"));
  expect(report.head).toEqual({ epoch: last.epoch, number: last.number, sha256: last.sha256 });
});

it("continues from a seal", async () => {
  await sealing.sealAll({ limit: 1 });
  const first = await verifyJournal(db, sealing.bucket, { limit: 1 });
  expect(first).toMatchObject({ ok: true, verified: 1, next: 2 });
  const second = await verifyJournal(db, sealing.bucket, { from: last.number, limit: 2 });
  expect(second).toMatchObject({ ok: true, verified: 1, next: null });
});

it("names a seal whose object is missing, damaged or another one", async () => {
  const kindsOf = async (bucket: SealBucket) =>
    (await verifyJournal(db, bucket, { from: last.number })).discrepancies.map(
      ({ seal, kind }) => [seal, kind] as const,
    );
  expect(await kindsOf(withObject(null))).toEqual([[last.number, "missing"]]);
  const cut = (await encoded((seal) => seal)).slice(0, -1);
  expect(await kindsOf(withObject(cut))).toEqual([[last.number, "malformed"]]);
  const other = await encoded((seal) => ({ ...seal, quotes: seal.quotes.slice(1) }));
  expect(await kindsOf(withObject(other))).toEqual([[last.number, "changed"]]);
  const [first, ...rest] = (await readSeal(sealing.bucket, last)).seal.transfers;
  if (first === undefined) throw new Error("the seal has transfers");
  const richer = { ...first, toBalance: first.toBalance + 1n };
  const forged = await encoded((seal) => ({ ...seal, transfers: [richer, ...rest] }));
  expect(await kindsOf(withObject(forged))).toEqual([[last.number, "changed"]]);
});

it("names a balance of the database that the seals contradict", async () => {
  const one = sql`(SELECT account_id FROM accounts WHERE kind = 'fees')`;
  for (const table of ["accounts", "sealed_balances"]) {
    const move = (by: number) =>
      edit(db, table, [
        sql`UPDATE ${raw(table)} SET balance = balance + ${by}
          WHERE account_id = ${one}`,
      ]);
    await move(1);
    const report = await verifyJournal(db, sealing.bucket);
    await move(-1);
    expect(report.ok).toBe(false);
    expect(report.discrepancies).toEqual([
      { seal: last.number, kind: "balance", detail: expect.stringContaining("/fees/usdc") },
    ]);
  }
  expect(await verifyJournal(db, sealing.bucket)).toMatchObject({ ok: true });
});
