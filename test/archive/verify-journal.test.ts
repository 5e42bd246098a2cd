import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { encodeSeal, type Seal } from "../../src/archive/seal-format.ts";
import { keyOf, readSeal, type SealBucket } from "../../src/archive/seal-store.ts";
import { lastSeals, type SealRow } from "../../src/archive/seal-row.ts";
import { verifyJournal } from "../../scripts/operator/verify-database.ts";
import { verifySeals } from "../../src/archive/verify-journal.ts";
import { all, blob, sql, uuid } from "../../src/platform/sql.ts";
import { settings } from "../support/http.ts";
import { edit } from "../support/ledger.ts";
import { bucketWith, SealedJournal, Sealing } from "./sealing.ts";
import { rounds } from "../support/depth.ts";

const journal = new SealedJournal(env.VERIFIED_DB, "verified");
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

/** A statement, bound or not, whose rows are read in another way. */
function withAll(
  statement: D1PreparedStatement,
  read: (all: () => Promise<D1Result>) => Promise<D1Result>,
): D1PreparedStatement {
  return new Proxy(statement, {
    get(target, name) {
      if (name === "all") return () => read(() => target.all());
      if (name === "bind") return (...values: unknown[]) => withAll(target.bind(...values), read);
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** The archive with another object of the last seal. */
function withObject(bytes: Uint8Array<ArrayBuffer> | null): SealBucket {
  const get = (key: string) =>
    key === keyOf(last)
      ? Promise.resolve(bytes === null ? null : new Response(bytes))
      : sealing.bucket.get(key);
  return bucketWith(sealing.bucket, { get });
}

async function encoded(change: (seal: Seal) => Seal): Promise<Uint8Array<ArrayBuffer>> {
  return encodeSeal(change((await readSeal(sealing.bucket, last)).seal)).bytes;
}

it("verifies the whole chain, also while more is posted", async () => {
  await journal.trade();
  const report = await verifyJournal(db, sealing.bucket, settings());
  expect(report).toMatchObject({ ok: true, unknown: 0, discrepancies: [] });
  expect(report.verified).toBe(await journal.count("journal_seals"));
  expect(report.head).toEqual({ epoch: last.epoch, number: last.number, sha256: last.sha256 });
});

it("verifies a chain of any length, in parts", async () => {
  const { requester } = await journal.trade();
  await sealing.sealAll({ limit: 1 });
  await journal.trade();
  const whole = await verifyJournal(db, sealing.bucket, settings());
  const seals = await journal.count("journal_seals");
  expect(whole).toMatchObject({ ok: true, verified: seals, unknown: 0 });
  expect(whole.accounts).toBe(await journal.count("accounts"));
  for (const limits of [
    { seals: 2, rows: 50_000, accounts: rounds(10, 3) },
    { seals: 500, rows: rounds(6, 3), accounts: 50 },
  ]) {
    const places: string[] = [];
    const onProgress = (where: string) => void places.push(where);
    expect(await verifyJournal(db, sealing.bucket, settings(), { limits, onProgress })).toEqual(
      whole,
    );
    expect(places.length).toBeGreaterThan(seals / 8);
  }
  // An account that the last parts do not touch.
  const idle = sql`(SELECT account_id FROM accounts WHERE owner = ${uuid(requester.userId)}
    AND asset = 'usdc' AND kind = 'available')`;
  await sealing.sealAll();
  const limits = { seals: rounds(4, 1), rows: rounds(8, 1), accounts: rounds(8, 1) };
  const move = (by: number) =>
    edit(db, "sealed_balances", [
      sql`UPDATE sealed_balances SET balance = balance + ${by} WHERE account_id = ${idle}`,
    ]);
  await move(1);
  const { ok, discrepancies } = await verifyJournal(db, sealing.bucket, settings(), { limits });
  await move(-1);
  expect(ok).toBe(false);
  expect(discrepancies).toMatchObject([
    { kind: "balance", detail: expect.stringContaining("/available/usdc is recorded as ") },
  ]);
});

it("reads seals of so many rows of all kinds at once", async () => {
  await journal.trade();
  await sealing.sealAll();
  const sizes = (await lastSeals(db, 1_000))
    .toReversed()
    .map(({ transfers, requests, quotes, matches }) => transfers + requests + quotes + matches);
  const [first = 0, second = 0] = sizes;
  const read = async (rows: number) => {
    const limits = { seals: 500, rows, accounts: 1 };
    const context = { db, bucket: sealing.bucket, macKeys: settings(), limits };
    return (await verifySeals(context, 1)).seals.length;
  };
  expect(await read(first + second)).toBe(2);
  expect(await read(first + second - 1)).toBe(1);
  expect(await read(1)).toBe(1);
});

it("says which accounts it cannot know that begins with a later seal", async () => {
  const report = await verifyJournal(db, sealing.bucket, settings(), { from: last.number });
  expect(report).toMatchObject({ ok: true, verified: 1, discrepancies: [] });
  expect(report.unknown).toBeGreaterThan(0);
  expect(report.accounts + report.unknown).toBe(await journal.count("accounts"));
});

it("goes on with what is sealed meanwhile", async () => {
  let [reads, number] = [0, 0];
  const busy = new Proxy(db, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (name === "prepare")
        return (text: string) => {
          const found = target.prepare(text);
          if (!text.includes("LEFT JOIN sealed_balances")) return found;
          return withAll(found, async (rest) => {
            const rows = await rest();
            if (++reads % 2 !== 1 || number > 2) return rows;
            number++;
            await journal.trade();
            await sealing.sealAll();
            return rows;
          });
        };
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const limits = { seals: 500, rows: 7, accounts: 10 };
  await journal.trade();
  const report = await verifyJournal(busy, sealing.bucket, settings(), { limits });
  expect(number).toBe(3);
  expect(report).toMatchObject({ ok: true, discrepancies: [] });
  expect(report.head?.number).toBeGreaterThan(last.number + 2);
});

it("names a seal whose object is missing, damaged or another one", async () => {
  const kindsOf = async (bucket: SealBucket) =>
    (await verifyJournal(db, bucket, settings(), { from: last.number })).discrepancies.map(
      ({ seal, kind }) => [seal, kind] as const,
    );
  const restart = [last.number, "balance"];
  expect(await kindsOf(withObject(null))).toEqual([[last.number, "missing"], restart]);
  const cut = (await encoded((seal) => seal)).slice(0, -1);
  expect(await kindsOf(withObject(cut))).toEqual([[last.number, "malformed"], restart]);
  const other = await encoded((seal) => ({ ...seal, quotes: seal.quotes.slice(1) }));
  expect(await kindsOf(withObject(other))).toEqual([[last.number, "changed"], restart]);
  const [first, ...rest] = (await readSeal(sealing.bucket, last)).seal.transfers;
  if (first === undefined) throw new Error("the seal has transfers");
  const richer = { ...first, to_balance: first.to_balance + 1n };
  const forged = await encoded((seal) => ({ ...seal, transfers: [richer, ...rest] }));
  expect(await kindsOf(withObject(forged))).toEqual([[last.number, "changed"], restart]);
});

describe("a forger who can write to the database and to the bucket", () => {
  const kinds = async (bucket: SealBucket) =>
    (await verifyJournal(db, bucket, settings())).discrepancies.map(({ seal, kind }) => [
      seal,
      kind,
    ]);

  it("writes another seal with a row that fits, which is unsigned", async () => {
    const other = encodeSeal({ ...(await readSeal(sealing.bucket, last)).seal, quotes: [] });
    const bucket = withObject(other.bytes);
    const write = (sha256: string, quotes: number) =>
      edit(db, "journal_seals", [
        sql`UPDATE journal_seals SET sha256 = ${blob(sha256)}, quotes = ${quotes}
          WHERE number = ${last.number}`,
      ]);
    await write(other.sha256, 0);
    const found = await kinds(bucket);
    await write(last.sha256, last.quotes);
    expect(found[0]).toEqual([last.number, "unsigned"]);
    expect(await kinds(sealing.bucket)).toEqual([]);
  });

  it("copies the events of seals, which signs nothing", async () => {
    await all(db, sql`CREATE TABLE sealed_events AS SELECT * FROM audit_events`);
    const seals = await journal.count("journal_seals");
    await edit(db, "audit_events", [
      sql`DELETE FROM audit_events`,
      sql`INSERT INTO audit_events SELECT audit_seq, randomblob(16), kind, actor, user_id,
          api_key_id, ip, subject_id, details, mac, at FROM sealed_events`,
    ]);
    const found = await kinds(sealing.bucket);
    await edit(db, "audit_events", [
      sql`DELETE FROM audit_events`,
      sql`INSERT INTO audit_events SELECT * FROM sealed_events`,
    ]);
    await all(db, sql`DROP TABLE sealed_events`);
    expect(found.filter(([, kind]) => kind === "unsigned")).toHaveLength(seals);
    expect(await kinds(sealing.bucket)).toEqual([]);
  });

  it("deletes the row of the last seal, which is missing", async () => {
    await all(
      db,
      sql`CREATE TABLE last_seal AS SELECT * FROM journal_seals
      WHERE number = ${last.number}`,
    );
    await edit(db, "journal_seals", [sql`DELETE FROM journal_seals WHERE number = ${last.number}`]);
    const found = await kinds(sealing.bucket);
    await edit(db, "journal_seals", [sql`INSERT INTO journal_seals SELECT * FROM last_seal`]);
    await all(db, sql`DROP TABLE last_seal`);
    expect(found).toContainEqual([last.number, "missing"]);
    expect(await kinds(sealing.bucket)).toEqual([]);
  });

  it("deletes the row before the first that is read, which hides none", async () => {
    const before = sql`number = ${last.number - 1}`;
    await all(db, sql`CREATE TABLE one_seal AS SELECT * FROM journal_seals WHERE ${before}`);
    await edit(db, "journal_seals", [sql`DELETE FROM journal_seals WHERE ${before}`]);
    const context = { db, bucket: sealing.bucket, macKeys: settings() };
    const { seals, more } = await verifySeals(context, last.number);
    await edit(db, "journal_seals", [sql`INSERT INTO journal_seals SELECT * FROM one_seal`]);
    await all(db, sql`DROP TABLE one_seal`);
    expect(more).toBe(false);
    expect(seals).toMatchObject([
      { head: { number: last.number }, discrepancies: [{ seal: last.number, kind: "chain" }] },
    ]);
  });
});
