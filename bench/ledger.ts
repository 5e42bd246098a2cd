/**
 * Figures of the journal: `node bench/ledger.ts [--quick]`. Takes some minutes and 2 GB of disk in
 * the temporary directory.
 *
 * 1. Pages of get-ledger for one user while the journal grows, through D1 in workerd, and the bytes
 *    that a transfer leaves.
 * 2. Transfers per second: ours, PostgreSQL, and SQLite in the process, in the same run.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { convertV4MiniflareOptions, Miniflare } from "miniflare";
import { reasonCode, stepCode } from "../src/ledger/codes.ts";
import type { LedgerFilter } from "../src/ledger/filter.ts";
import { NEWEST, readEntries } from "../src/ledger/history.ts";
import { transfer } from "../src/ledger/post.ts";
import { type Group, newGroup, NOW } from "../src/platform/commit.ts";
import { raw, type Sql, sql, uuid } from "../src/platform/sql.ts";
import { measureInTurn, type Rate, runPostgres, runSqlite } from "./ledger-peers.ts";

const QUICK = process.argv.includes("--quick");
const SIZES = QUICK ? [10_000, 100_000, 500_000] : [10_000, 1_000_000, 5_000_000];
const SECONDS = QUICK ? 2 : 6;
const USERS = 1_000;
const ASSETS = 5;
const FIRST_INSTANT = 1_700_000_000_000;
/**
 * The busy reader has a tenth of all transfers, so its history grows with the journal. The quiet
 * one has 2 000 entries, all of them among the first. The other users share the rest.
 */
const READERS = { busy: "0".repeat(32), quiet: "1".padStart(32, "0") };
const SHARE = 10;
const QUIET_UNTIL = 10_000;
/**
 * The busy reader's first reserves all have the same amount. 40 000 later ones have an amount each.
 * All other amounts are from 1 to 1 000.
 */
const FORMER_UNTIL = 4_000;
const [SCATTERED_FROM, SCATTERED_UNTIL] = [20_000, 420_000];
const MIGRATIONS = readdirSync(join(import.meta.dirname, "../migrations"))
  .filter((file) => file.endsWith(".sql"))
  .toSorted()
  .flatMap((file) =>
    readFileSync(join(import.meta.dirname, "../migrations", file), "utf8").split(
      "--> statement-breakpoint",
    ),
  );

/**
 * Runs batches one after the other and returns the rows of the last. It runs in workerd, because
 * every client of the journal does.
 */
const WORKER = `export default { async fetch(request, env) {
  try {
    let results = [];
    const db = env[new URL(request.url).pathname.slice(1)];
    for (const batch of await request.json()) results = await db.batch(batch.map(({ text, params }) => db.prepare(text).bind(...params)));
    return Response.json([...results.map((result) => result.results), [{ bytes: results.at(-1).meta.size_after }]]);
  } catch (error) { return new Response(String(error), { status: 500 }); }
} };`;

type Database = Parameters<typeof readEntries>[0];
type Batch = (...batches: readonly (readonly Sql[])[]) => Promise<unknown[][]>;

/**
 * One database per size, so that calls alternate and other load on the machine affects all of them.
 */
async function startD1(folder: string) {
  const names = SIZES.map((size) => `DB_${size}`);
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      modules: true,
      script: WORKER,
      compatibilityDate: "2026-10-20",
      d1Databases: Object.fromEntries(names.map((name) => [name, name])),
      d1Persist: folder,
      unsafeDirectSockets: [{ host: "127.0.0.1", port: 0 }],
    }),
  );
  await miniflare.ready;
  const url = await miniflare.unsafeGetDirectURL();
  const batchOf =
    (name: string): Batch =>
    async (...batches) => {
      const send = () =>
        fetch(new URL(name, url), { method: "POST", body: JSON.stringify(batches) });
      // workerd closes idle connections, so the first call after a pause may fail.
      const response = await send().catch(send);
      if (!response.ok) throw new Error(await response.text());
      return rowsOf(await response.json());
    };
  return { batches: names.map(batchOf), stop: () => miniflare.dispose() };
}

/** The bench worker's own answer. */
function rowsOf(answer: unknown): unknown[][] {
  return answer as unknown[][];
}

/** The part of D1 that reads use, over HTTP to the bench worker. */
function databaseOver(batch: Batch): Database {
  const prepare = (text: string) => ({
    bind: (...params: Sql["params"][number][]) => ({
      all: async () => ({ results: (await batch([{ text, params }]))[0] ?? [] }),
      first: async () => (await batch([{ text, params }]))[0]?.[0] ?? null,
    }),
  });
  return { prepare } as unknown as Database;
}

const owner = (user: Sql): Sql => sql`unhex(printf('%032d', ${user}))`;

async function openAccounts(batch: Batch): Promise<void> {
  for (const statement of MIGRATIONS) await batch([raw(statement)]);
  const assets = raw(
    `json_each('${JSON.stringify(Array.from({ length: ASSETS }, (_, i) => (i === 0 ? "usdc" : `venue_one:0x${i.toString(16)}`)))}') ` +
      `a`,
  );
  const users = raw(`json_each('${JSON.stringify(Array.from({ length: USERS }, (_, i) => i))}') u`);
  await batch([
    sql`INSERT INTO commit_groups (group_id, at, voided) VALUES (randomblob(16), ${NOW}, 0)`,
    sql`INSERT INTO accounts (account_id, owner, asset, kind, balance)
      SELECT 1 + a.key, CAST('external:local' AS BLOB), a.value, 'external', 0 FROM ${assets}`,
  ]);
  for (const [index, kind] of ["available", "pending"].entries()) {
    await batch([
      sql`INSERT INTO accounts (account_id, owner, asset, kind, balance)
        SELECT ${ASSETS} + 1 + ${raw(String(index))} + 2 * (u.value * ${ASSETS} + a.key),
          ${owner(raw("u.value"))}, a.value, ${kind}, 0 FROM ${users}, ${assets}`,
    ]);
  }
  await batch([
    sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
      SELECT 1 + a.key, ${ASSETS} + 1 + 2 * (u.value * ${ASSETS} + a.key), 1000000000,
        ${reasonCode("deposit")}, randomblob(16), ${stepCode("credit")}, 0,
          ${raw(String(FIRST_INSTANT))} FROM ${users}, ${assets}`,
  ]);
}

/** Inserts alternating reserves and releases, as quotes do, up to `total` transfers. */
async function fill(batch: Batch, total: number): Promise<void> {
  const [head] = await batch([sql`SELECT max(transfer_id) AS n FROM transfers`]);
  // A reserve has an even number, its release the next odd one.
  let from = 2 * Math.ceil(((head?.[0] as { n: number } | undefined)?.n ?? 0) / 2);
  while (from < total) {
    const count = Math.min(20_000, total - from);
    await batch([
      sql`WITH RECURSIVE n(v) AS (SELECT ${BigInt(from)} UNION ALL
          SELECT v + 1 FROM n WHERE v < ${BigInt(from + count - 1)}),
        m AS (SELECT v, v % 2 AS back, ${raw(String(ASSETS))} + 1 + 2 * (
          CASE WHEN (v / 2) % ${raw(String(SHARE))} = 0 THEN 0
            WHEN (v / 2) % 5 = 1 AND v < ${raw(String(QUIET_UNTIL))} THEN 1
            ELSE 2 + (v / 2) * 7919 % ${raw(String(USERS - 2))} END * ${raw(String(ASSETS))}
          + (v / 2) % 97 % ${raw(String(ASSETS))}) AS account FROM n)
        INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
        SELECT account + back, account + 1 - back,
          CASE WHEN (v / 2) % ${raw(String(SHARE))} <> 0 THEN 1 + (v / 2) % 1000
            WHEN v < ${raw(String(FORMER_UNTIL))} THEN 5000
            WHEN v BETWEEN ${raw(String(SCATTERED_FROM))} AND ${raw(String(SCATTERED_UNTIL))}
              THEN 10000 + v / 2
            ELSE 1 + (v / 2) % 1000 END,
          iif(back, ${reasonCode("release")}, ${reasonCode("reserve_rfq")}), randomblob(16),
          iif(back, ${stepCode("end")}, ${stepCode("reserve")}), 0,
          ${raw(String(FIRST_INSTANT))} + v FROM m`,
    ]);
    from += count;
  }
}

/** Prints the milliseconds of a page for each reader, filter and size. */
async function pages(batches: readonly Batch[], newest: readonly number[]): Promise<void> {
  const filters: Record<string, (newest: number) => LedgerFilter> = {
    "no filter": () => ({}),
    "one asset, pending debits": () => ({
      venue: "venue_one",
      assetId: "0x3",
      account: "pending",
      direction: "debit",
    }),
    "reasons=deposit (oldest entries)": () => ({ reasons: ["deposit"] }),
    "from and to in the middle": (last) => ({ from: (FIRST_INSTANT + last) / 2, to: last - 1_000 }),
    "1 amount in 100 matches": () => ({ minAmount: 991n, maxAmount: 1_000n }),
    "no amount matches": () => ({ minAmount: 2n ** 40n }),
    "one amount, only long ago": () => ({ minAmount: 5_000n, maxAmount: 5_000n }),
    "thousands of amounts, long ago": () => ({ minAmount: 10_000n }),
  };
  for (const [who, reader] of Object.entries(READERS)) {
    for (const [name, filter] of Object.entries(filters)) {
      const times = await measureInTurn(
        name.startsWith("thousands") ? 30 : 300,
        batches.map(
          (batch, i) => () =>
            readEntries(databaseOver(batch), reader, filter(newest[i] ?? 0), {
              before: NEWEST,
              limit: 50,
            }),
        ),
      );
      const small = times[0]?.p50 ?? 0;
      const columns = times.map(
        ({ p50, p99 }) => `${p50.toFixed(2).padStart(7)} ${p99.toFixed(2).padStart(6)}`,
      );
      console.log(
        `  ${`${who}: ${name}`.padEnd(40)} ${columns.join("  ")}  ` +
          `${((times.at(-1)?.p50 ?? 0) / small).toFixed(2).padStart(6)}x`,
      );
    }
  }
}

function transfersOf(group: Group, count: number, hot: boolean): Sql[] {
  const lines = Array.from({ length: count }, () => [
    hot ? 1 : 1 + Math.floor(Math.random() * (USERS - 1)),
    newGroup().id,
  ]);
  return [
    sql`INSERT INTO commit_groups (group_id, at, voided) VALUES (${uuid(group.id)}, ${NOW}, 0)`,
    transfer(group, {
      reason: "reserve_rfq",
      step: "reserve",
      from: "available",
      to: "pending",
      source: sql`SELECT ${owner(raw("(j.value ->> 0)"))} AS from_owner,
        ${owner(raw("(j.value ->> 0)"))} AS to_owner, 'usdc' AS asset, 1 AS amount,
        unhex(j.value ->> 1, '-') AS ref, 0 AS line FROM json_each(${JSON.stringify(lines)}) j`,
    }),
  ];
}

/** Batches per HTTP request, so that the request itself hardly counts. */
const BATCHES_PER_REQUEST = 20;

/** Batches per second. Each client sends its next batches when the last have returned. */
async function batchesPerSecond(batch: Batch, clients: number, make: () => Sql[]): Promise<number> {
  let done = 0;
  const until = Date.now() + SECONDS * 1_000;
  const started = performance.now();
  await Promise.all(
    Array.from({ length: clients }, async () => {
      while (Date.now() < until) {
        await batch(...Array.from({ length: BATCHES_PER_REQUEST }, make));
        done += BATCHES_PER_REQUEST;
      }
    }),
  );
  return done / ((performance.now() - started) / 1_000);
}

/** Transfers per second, one per batch and grouped, and batches per second that do nothing. */
async function ours(batch: Batch): Promise<Rate[]> {
  const rates: Rate[] = [];
  for (const clients of [1, 16]) {
    const perSecond = await batchesPerSecond(batch, clients, () => [
      raw("SELECT 1"),
      raw("SELECT 1"),
    ]);
    rates.push({ who: "D1, batches of SELECT 1 twice", clients, hot: false, perSecond });
  }
  for (const hot of [false, true]) {
    for (const perBatch of [1, 64]) {
      for (const clients of [1, 16]) {
        const perSecond =
          perBatch *
          (await batchesPerSecond(batch, clients, () => transfersOf(newGroup(), perBatch, hot)));
        rates.push({
          who: `D1, ${perBatch === 1 ? "one" : perBatch} per batch`,
          clients,
          hot,
          perSecond,
        });
      }
    }
  }
  return rates;
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "bench-ledger-"));
  const d1 = await startD1(folder);
  try {
    const newest: number[] = [];
    for (const [i, batch] of d1.batches.entries()) {
      const size = SIZES[i] ?? 0;
      console.log(`filling a journal with ${size.toLocaleString("en")} transfers`);
      await openAccounts(batch);
      await fill(batch, size);
      newest.push(FIRST_INSTANT + size - 1);
    }
    console.log(
      `\nA page of get-ledger, 50 items: p50 and p99 in ms at ` +
        `${SIZES.map((size) => size.toLocaleString("en")).join(", ")} transfers; last p50 ` +
        `over first`,
    );
    await pages(d1.batches, newest);
    const largest = d1.batches.at(-1);
    if (largest === undefined) throw new Error("no database");
    // The bench worker adds the database's size as the last result.
    const size = (await largest([raw("SELECT 1")])).at(-1)?.[0] as { bytes: number } | undefined;
    console.log(
      `\nBytes that a transfer leaves, with its indexes: ` +
        `${Math.round((size?.bytes ?? 0) / (SIZES.at(-1) ?? 1))}`,
    );
    const rates = [
      ...(await ours(largest)),
      ...runSqlite(SECONDS, MIGRATIONS),
      ...(await runPostgres(SECONDS)),
    ];
    console.log("\nTransfers per second");
    for (const rate of rates)
      console.log(
        `  ${rate.who.padEnd(34)} ${rate.hot ? "hot account  " : "1 000 accounts"} ` +
          `${String(rate.clients).padStart(3)} clients ` +
          `${Math.round(rate.perSecond).toLocaleString("en").padStart(9)}/s`,
      );
  } finally {
    await d1.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

await main();
