import { deflateRawSync } from "node:zlib";
import { env } from "cloudflare:workers";
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { beforeAll, expect, it } from "vitest";
import { encodeSeal, type Seal } from "../../src/archive/seal-format.ts";
import { compress, decompress } from "../../src/archive/compress.ts";
import { chooseRange } from "../../src/archive/choose-range.ts";
import { readRange } from "../../src/archive/read-range.ts";
import { readDatabaseState } from "../../src/archive/seal-round.ts";
import { lastSeals, type SealRow } from "../../src/archive/seal-row.ts";
import { putIfAbsent, readSeal } from "../../src/archive/seal-store.ts";
import type { Sealer } from "../../src/reconcile/scanning-sealer.ts";
import { nextEpoch } from "../../src/archive/sealer-memory.ts";
import { verifyJournal } from "../../scripts/operator/verify-database.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { command, commitCommand } from "../support/market.ts";
import { newUser } from "../support/users.ts";
import { withBatch } from "../support/slow-database.ts";
import { settings } from "../support/http.ts";
import { bucketWith, SealedJournal, Sealing } from "./sealing.ts";

const journal = new SealedJournal(env.SEALED_DB, "sealed");
const { db } = journal;
const sealing = new Sealing(journal);

beforeAll(() => journal.open());

const hexOf = (id: string) => id.replaceAll("-", "");

/** The last transfer that the reconciliation has scanned. */
async function scannedTo(): Promise<number> {
  const [row] = await all<{ position: number }>(
    db,
    sql`SELECT position FROM ledger_checkpoints WHERE scan = 'transfers'`,
  );
  return row?.position ?? 0;
}

/** Everything that the seals up to now contain, in order. */
async function archived(): Promise<{ rows: SealRow[]; seals: Seal[] }> {
  const rows = (await lastSeals(db, 1_000)).toReversed();
  const seals = [];
  for (const row of rows) seals.push((await readSeal(sealing.bucket, row)).seal);
  return { rows, seals };
}

it("seals every transfer once, with the records that ended", async () => {
  const first = await journal.trade();
  const second = await journal.trade();
  await sealing.sealAll();
  const { rows, seals } = await archived();
  const transfers = seals.flatMap((seal) => seal.transfers);
  const [inDatabase] = await all<{ ids: string }>(
    db,
    sql`SELECT json_group_array(transfer_id ORDER BY transfer_id) AS ids FROM transfers`,
  );
  expect(transfers.map((row) => row.transfer_id)).toEqual(JSON.parse(inDatabase?.ids ?? ""));
  const quotes = seals.flatMap((seal) => seal.quotes.map((row) => row.quote_id));
  for (const { quotes: of } of [first, second]) {
    for (const ended of [of.accepted, of.rejected, of.cancelled])
      expect(quotes.filter((id) => id === hexOf(ended))).toHaveLength(1);
    expect(quotes).not.toContain(hexOf(of.open));
  }
  const matches = seals.flatMap((seal) => seal.matches.map((row) => row.match_id));
  expect(matches).toEqual([first, second].map(({ matchId }) => hexOf(matchId)).toSorted());
  const requests = seals.flatMap((seal) => seal.requests.map((row) => row.request_id));
  expect(requests).toEqual([first, second].map(({ requestId }) => hexOf(requestId)).toSorted());
  expect(rows.map(({ sha256 }) => sha256).slice(0, -1)).toEqual(
    rows.slice(1).map(({ previous }) => previous),
  );
});

it("never seals what is hot, or what it has not scanned itself", async () => {
  await sealing.sealAll();
  const sealed = sealing.memory.last.upTo;
  await journal.trade();
  await scheduler.wait(5);
  expect(await sealing.round({ hotMs: 60_000 })).toMatchObject({ status: "idle" });
  expect(await scannedTo()).toBe(sealed);
  const options = { hotMs: 0, limit: 10_000 };
  expect(await chooseRange(db, sealing.memory.last, options)).toBeUndefined();
  // Cron does not run, so the sealer continues the reconciliation's scan.
  expect(await sealing.round()).toMatchObject({ status: "sealed" });
  expect(sealing.memory.last.upTo).toBeGreaterThan(sealed);
  expect(await scannedTo()).toBeGreaterThanOrEqual(sealing.memory.last.upTo);
});

/** The database, and how many statements were prepared. */
function countStatements(of: D1Database): { db: D1Database; count: () => number } {
  let count = 0;
  const counting = new Proxy(of, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (name === "prepare")
        return (text: string) => {
          count++;
          return target.prepare(text);
        };
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { db: counting, count: () => count };
}

it("catches up with full seals, each at the same number of statements", async () => {
  await sealing.sealAll();
  for (let count = 0; count < 8; count++) await journal.trade();
  await scheduler.wait(5);
  const waiting = await journal.count(`transfers WHERE transfer_id > ${sealing.memory.last.upTo}`);
  const limit = 20;
  const statements: number[] = [];
  // No cron runs, as after an outage of an hour.
  for (;;) {
    const counted = countStatements(db);
    const round = await sealing.round({ limit, db: counted.db });
    if (round.status !== "sealed") break;
    expect(round.full || round.seal.transfers > 0).toBe(true);
    statements.push(counted.count());
  }
  expect(statements.length).toBeLessThanOrEqual(Math.ceil(waiting / (limit / 2)) + 1);
  // The first round scans, and none reads more than it because more waits.
  expect(Math.max(...statements.slice(1))).toBeLessThanOrEqual(Math.max(...statements.slice(0, 1)));
});

it("cuts between commit groups at any limit", async () => {
  await journal.trade();
  const from = sealing.memory.last.number;
  await sealing.sealAll({ limit: 1 });
  const { seals } = await archived();
  const cut = seals.filter(({ number }) => number > from);
  expect(cut.length).toBeGreaterThan(2);
  const instants = cut.map((seal) => new Set(seal.transfers.map(({ at }) => at)));
  for (const [index, here] of instants.entries())
    for (const later of instants.slice(index + 1))
      expect([...here].filter((instant) => later.has(instant))).toEqual([]);
});

it("counts quotes that end while their requests stay open", async () => {
  const trades = [await journal.trade(), await journal.trade()];
  await sealing.sealAll();
  for (const { book, maker, quotes } of trades)
    await commitCommand(book, command.cancelQuote(maker, quotes.open), db);
  await newUser({ usdc: 1n }, db);
  await sealing.sealAll({ limit: 1 });
  const { seals } = await archived();
  const ended = trades.map(({ quotes }) => hexOf(quotes.open));
  const together = seals.map(({ quotes }) => quotes.map((row) => row.quote_id));
  expect(together.filter((ids) => ended.some((id) => ids.includes(id)))).toEqual(
    ended.map((id) => [id]),
  );
});

it("waits for more unless the range is full", async () => {
  await sealing.sealAll();
  await journal.trade();
  await journal.scanned();
  expect(await sealing.round({ everyMs: 60_000 })).toMatchObject({ status: "idle" });
  expect(await sealing.round({ everyMs: 60_000, limit: 3 })).toMatchObject({ status: "sealed" });
});

class Killed extends Error {}

const at = (name: string) => (reached: string) =>
  reached === name ? Promise.reject(new Killed(name)) : Promise.resolve();

it.each(["seal_chosen", "seal_put", "seal_proven", "seal_stored"])(
  "continues after a kill at %s",
  async (name) => {
    await sealing.sealAll();
    await journal.trade();
    await journal.scanned();
    const before = await journal.count("journal_seals");
    await expect(sealing.round({ failpoint: at(name) })).rejects.toThrow(Killed);
    // More is committed meanwhile, so a new choice would be another one.
    await journal.trade();
    await sealing.sealAll();
    const { seals } = await archived();
    const ids = seals.flatMap((seal) => seal.transfers.map((row) => row.transfer_id));
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBe(await journal.count("transfers"));
    expect(await journal.count("journal_seals")).toBeGreaterThan(before);
  },
);

it("takes the object of a runtime that compresses in another way", async () => {
  await sealing.sealAll();
  await journal.trade();
  await journal.scanned();
  const least = (content: string) => new Uint8Array(deflateRawSync(content, { level: 1 }));
  const { bucket } = sealing;
  const put = async (key: string) => {
    const { chosen, epoch, last } = sealing.memory;
    if (chosen === null) throw new Error("nothing is chosen");
    const { sha256: previous, number } = last;
    const head = { ...chosen, epoch, number: number + 1, previous };
    const seal = { ...head, ...(await readRange(db, chosen)) };
    const links = await sealing.links(seal);
    const other = encodeSeal(seal, links, least);
    expect(other.bytes.length).not.toBe(encodeSeal(seal, links).bytes.length);
    await bucket.put(key, other.bytes);
    throw new Error("put: locked object (10069)");
  };
  expect(await sealing.round({ bucket: bucketWith(bucket, { put }) })).toMatchObject({
    status: "sealed",
  });
  expect(await verifyJournal(db, bucket, settings())).toMatchObject({ ok: true });
});

it("unpacks any length, and no more than is stated, in the Worker's runtime", () => {
  for (const length of [1, 16_384, 16_385, 65_536, 100_000, 3_000_000]) {
    const content = "0123456789".repeat(length).slice(0, length);
    expect(decompress(compress(content), length)).toBe(content);
  }
  // Not unpacked first and then found to be too long.
  const bomb = compress("0".repeat(20_000_000));
  expect(() => decompress(bomb, 1_000)).toThrow("cannot be decompressed");
});

it("stores one of two seals that two sealers make of one range", async () => {
  await sealing.sealAll();
  await journal.trade();
  await journal.scanned();
  const other = Object.assign(new Sealing(journal), { memory: sealing.memory });
  const rounds = await Promise.allSettled([sealing.round(), other.round()]);
  const stored = rounds.filter(({ status }) => status === "fulfilled");
  expect(stored.length).toBeGreaterThan(0);
  await other.sealAll();
  await sealing.sealAll();
  expect(sealing.memory.last).toEqual(other.memory.last);
  const { seals } = await archived();
  expect(seals.reduce((sum, seal) => sum + seal.transfers.length, 0)).toBe(
    await journal.count("transfers"),
  );
});

it.each(["before the batch", "after the batch"])(
  "stores a seal once if D1 fails %s",
  async (when) => {
    await sealing.sealAll();
    await journal.trade();
    await journal.scanned();
    let failures = 1;
    const failing = withBatch(db, async (statements) => {
      if (failures-- <= 0) return db.batch(statements);
      if (when === "after the batch") await db.batch(statements);
      throw new Error("Network connection lost");
    });
    const number = sealing.memory.last.number + 1;
    await sealing.round({ db: failing }).catch(() => undefined);
    await sealing.sealAll();
    expect(sealing.memory.last.number).toBe(number);
    expect(sealing.memory.chosen).toBeNull();
  },
);

const nothing = () => Promise.resolve(null);
const LIES: readonly (readonly [
  string,
  Partial<Record<"get" | "put", (key: unknown) => unknown>>,
])[] = [
  ["loses what is put", { put: nothing }],
  ["returns nothing", { get: nothing }],
  ["returns other bytes", { get: () => Promise.resolve(objectOf(new Uint8Array(100))) }],
  ["returns the object of an older seal", { get: () => sealing.bucket.get("journal/1/1") }],
  ["returns a truncated object", { get: truncated }],
];

async function truncated(key: unknown): Promise<unknown> {
  const object = await sealing.bucket.get(String(key));
  return object === null ? null : objectOf(new Uint8Array(await object.arrayBuffer()).slice(0, -1));
}

it.each(LIES)("stores no seal of an archive that %s", async (_title, lie) => {
  await sealing.sealAll();
  await journal.trade();
  await journal.scanned();
  const before = await journal.count("journal_seals");
  const { get, put } = sealing.bucket;
  const bucket = { get, put, ...lie } as typeof sealing.bucket;
  expect(await sealing.round({ bucket })).toMatchObject({ status: "mismatch" });
  expect(await journal.count("journal_seals")).toBe(before);
  expect((await sealing.sealAll()).at(-1)).toMatchObject({ status: "idle" });
});

const objectOf = (bytes: Uint8Array) => ({ arrayBuffer: () => Promise.resolve(bytes.buffer) });

it("takes the object of a put whose answer was lost", async () => {
  await sealing.sealAll();
  await journal.trade();
  await journal.scanned();
  const { bucket } = sealing;
  const put = async (...request: Parameters<typeof bucket.put>) => {
    await bucket.put(...request);
    throw new Error("10001: internal error");
  };
  const { last } = sealing.memory;
  expect(await sealing.round({ bucket: bucketWith(bucket, { put }) })).toMatchObject({
    status: "sealed",
    seal: { number: last.number + 1 },
  });
});

it("takes the object of a killed attempt though its key is locked", async () => {
  await sealing.sealAll();
  await journal.trade();
  await journal.scanned();
  await expect(sealing.round({ failpoint: at("seal_put") })).rejects.toThrow(Killed);
  const { chosen } = sealing.memory;
  // More is committed meanwhile, so a new choice would be another one.
  await journal.trade();
  const put = () => Promise.reject(new Error("put: locked object (10069)"));
  const bucket = bucketWith(sealing.bucket, { put });
  expect(await sealing.round({ bucket })).toMatchObject({
    status: "sealed",
    seal: { upTo: chosen?.upTo },
  });
});

it("continues if its memory could not be stored", async () => {
  await sealing.sealAll();
  await journal.trade();
  await journal.scanned();
  let stores = 0;
  const remember = async (memory: typeof sealing.memory) => {
    if (++stores === 2) throw new Error("storage failed");
    sealing.memory = memory;
  };
  await expect(sealing.round({ remember })).rejects.toThrow("storage failed");
  const number = await journal.count("journal_seals");
  expect((await sealing.sealAll()).at(-1)).toMatchObject({ status: "idle" });
  expect(await journal.count("journal_seals")).toBe(number);
  expect(sealing.memory).toMatchObject({ last: { number }, chosen: null });
});

it("stores no seal if the archive fails", async () => {
  await journal.trade();
  await journal.scanned();
  const before = await journal.count("journal_seals");
  const put = () => Promise.reject(new Error("10001: internal error"));
  const bucket = bucketWith(sealing.bucket, { put });
  await expect(sealing.round({ bucket })).rejects.toThrow("10001");
  expect(await journal.count("journal_seals")).toBe(before);
  await sealing.sealAll();
});

it("refuses another sealer's object that the database contradicts", async () => {
  await sealing.sealAll();
  await journal.trade();
  await journal.scanned();
  const stranger = new Sealing(journal);
  // An object under the number that comes next, of the same transfers under another history.
  stranger.memory = {
    ...sealing.memory,
    last: { ...sealing.memory.last, sha256: "11".repeat(32) },
  };
  const key = { epoch: sealing.memory.epoch, number: sealing.memory.last.number + 1 };
  await expect(readSeal(sealing.bucket, { ...key, sha256: "" })).rejects.toThrow("has no object");
  await putForeign(stranger);
  expect(await sealing.round()).toMatchObject({ status: "mismatch" });
  // The next epoch has keys of its own.
  sealing.memory = { ...sealing.memory, epoch: sealing.memory.epoch + 1, chosen: null };
  expect((await sealing.sealAll()).at(0)).toMatchObject({ status: "sealed" });
});

async function putForeign({ bucket, memory }: Sealing): Promise<void> {
  const head = {
    epoch: memory.epoch,
    number: memory.last.number + 1,
    previous: memory.last.sha256,
    after: memory.last.upTo,
    upTo: memory.last.upTo,
    afterGroup: memory.last.upToGroup,
    upToGroup: memory.last.upToGroup,
  };
  const seal = { ...head, transfers: [], requests: [], quotes: [], matches: [] };
  await putIfAbsent(bucket, head, encodeSeal(seal));
}

it("halts on a database that is behind, and continues in a new epoch", async () => {
  await sealing.sealAll();
  const { memory } = sealing;
  const later = { ...memory.last, number: memory.last.number + 1, sha256: "22".repeat(32) };
  sealing.memory = { ...memory, last: later };
  expect(await sealing.round()).toMatchObject({ status: "restored" });
  sealing.memory = { ...memory, last: { ...memory.last, sha256: "33".repeat(32) } };
  expect(await sealing.round()).toMatchObject({ status: "restored" });
  sealing.memory = { ...memory, highest: memory.highest + 1 };
  expect(await sealing.round()).toMatchObject({ status: "restored" });
  sealing.memory = nextEpoch(sealing.memory, await readDatabaseState(db));
  await journal.trade();
  await journal.scanned();
  expect(await sealing.round()).toMatchObject({
    status: "sealed",
    seal: { epoch: memory.epoch + 1, number: memory.last.number + 1 },
  });
});

it("keeps the chain: no seal is skipped, changed or removed", async () => {
  await sealing.sealAll();
  const [last] = await lastSeals(db, 1);
  if (last === undefined) throw new Error("nothing is sealed");
  const insert = (number: number, after: number) =>
    all(
      db,
      sql`INSERT INTO journal_seals SELECT ${number}, epoch, ${after}, ${after}, up_to_group,
        up_to_group, 0, 0, 0, 0, last_at, 1, sha256, randomblob(32), sealed_at, NULL, NULL, NULL, NULL
        FROM journal_seals WHERE number = ${last.number}`,
    );
  await expect(insert(last.number + 2, last.upTo)).rejects.toThrow("append-only");
  await expect(insert(last.number + 1, last.upTo - 1)).rejects.toThrow("append-only");
  await expect(insert(last.number, last.upTo)).rejects.toThrow("append-only");
  await expect(all(db, sql`DELETE FROM journal_seals`)).rejects.toThrow("append-only");
  await expect(all(db, sql`UPDATE journal_seals SET bytes = 0`)).rejects.toThrow("append-only");
});

it("remembers in its own storage and runs by its alarm", async () => {
  const stub = env.SEALER.getByName(uuidv7());
  await stub.wake();
  expect(await runDurableObjectAlarm(stub)).toBe(true);
  await runInDurableObject(stub, async (_sealer: Sealer, { storage }) => {
    expect(await storage.getAlarm()).not.toBeNull();
  });
});
