/**
 * Verifies the archive: each seal's object against its row, the row against the signed audit event
 * of the seal, the chain of hashes, the running balances across all seals, and the balances that
 * they end with against the database.
 */
import { asc, gte } from "drizzle-orm";
import type { MacKeys } from "../auth/event-mac.ts";
import { all, first, sql } from "../platform/sql.ts";
import { read } from "../platform/read.ts";
import { SealMalformed } from "./bytes.ts";
import { GENESIS } from "./footer.ts";
import type { SealedAccount } from "./records.ts";
import type { Seal } from "./seal-format.ts";
import { readSealEvents, type SealedAs } from "./seal-event.ts";
import { readSeal, type SealBucket, SealMissing, type StoredSeal } from "./seal-store.ts";
import { lastSeals, type SealRow, sealRow } from "./seal-row.ts";
import { journalSeals } from "./tables.ts";

/** Seals of one call. An invocation may read a thousand objects. */
const SEALS_PER_CALL = 500;
const MAX_LISTED = 100;

export type JournalReport = {
  readonly ok: boolean;
  /** Seals whose object, place in the chain and balances are right. */
  readonly verified: number;
  readonly transfers: number;
  readonly bytes: number;
  /** The last seal that was read. Compare it with the line `journal_sealed` of the logs. */
  readonly head: {
    readonly epoch: number;
    readonly number: number;
    readonly sha256: string;
  } | null;
  /** The seal to continue with, also one that was stored meanwhile. Null: the last one was read. */
  readonly next: number | null;
  readonly discrepancies: readonly Discrepancy[];
};

type Discrepancy = {
  readonly seal: number;
  /**
   * `missing`, `malformed`, `changed`: the object, or the row of a seal whose event exists. `chain`:
   * the row does not continue the one before. `unsigned`: no genuine audit event states this hash,
   * so this service did not make the seal. `balance`: a balance does not follow from the one
   * before, or differs from the database's.
   */
  readonly kind: "missing" | "malformed" | "changed" | "chain" | "unsigned" | "balance";
  readonly detail: string;
};

/**
 * Reads from seal `from` on. A call that starts at the first seal knows that every account starts
 * at zero. A later one takes the first balance of each account as given.
 */
export async function verifyJournal(
  db: D1Database,
  bucket: SealBucket,
  macKeys: MacKeys,
  { from = 1, limit = SEALS_PER_CALL }: { from?: number; limit?: number } = {},
): Promise<JournalReport> {
  const start = Math.max(1, from - 1);
  const found = await read(db, ({ select }) =>
    select()
      .from(journalSeals)
      .where(gte(journalSeals.number, start))
      .orderBy(asc(journalSeals.number))
      // The one before, whose hash the first one names, and the one that would come next.
      .limit(limit + (from - start) + 1),
  );
  const rows = found.map(sealRow);
  const before = from > start ? rows.shift() : undefined;
  let next = rows.length > limit ? (rows.pop()?.number ?? null) : null;
  const balances = new Balances(from === 1);
  const discrepancies: Discrepancy[] = [];
  let previous = before?.sha256 ?? GENESIS;
  let [verified, transfers, bytes] = [0, 0, 0];
  const last = rows.at(-1);
  const end = last?.number ?? from - 1;
  const events = await readSealEvents(db, macKeys, [...rows.map(({ number }) => number), end + 1]);
  for (const row of rows) {
    const wrong = [
      ...unsigned(row, events),
      ...(await verifySeal(bucket, row, previous, balances)),
    ];
    discrepancies.push(...wrong);
    if (wrong.length === 0) verified++;
    transfers += row.transfers;
    bytes += row.bytes;
    previous = row.sha256;
  }
  if (next === null) {
    const atEnd: Discrepancy[] =
      last === undefined ? [] : await compareWithDatabase(db, last, balances);
    if (events.some(({ number }) => number === end + 1))
      atEnd.push({ seal: end + 1, kind: "missing", detail: "its row is missing" });
    // A seal that was stored meanwhile has moved balances, so the next call compares them.
    const [newest] = await lastSeals(db, 1);
    if (newest !== undefined && newest.number > end) next = end + 1;
    else discrepancies.push(...atEnd);
  }
  return {
    ok: discrepancies.length === 0,
    verified,
    transfers,
    bytes,
    head:
      last === undefined ? null : { epoch: last.epoch, number: last.number, sha256: last.sha256 },
    next,
    discrepancies: discrepancies.slice(0, MAX_LISTED),
  };
}

function unsigned(row: SealRow, events: readonly SealedAs[]): Discrepancy[] {
  const found = events.some(
    ({ number, epoch, sha256 }) =>
      number === row.number && epoch === row.epoch && sha256 === row.sha256,
  );
  const detail = "no genuine audit event states its hash";
  return found ? [] : [{ seal: row.number, kind: "unsigned", detail }];
}

async function verifySeal(
  bucket: SealBucket,
  row: SealRow,
  previous: string,
  balances: Balances,
): Promise<Discrepancy[]> {
  const wrong = (kind: Discrepancy["kind"], detail: string) => ({ seal: row.number, kind, detail });
  const chain = row.previous === previous ? [] : [wrong("chain", "names another previous hash")];
  let stored: StoredSeal;
  try {
    stored = await readSeal(bucket, row);
  } catch (error) {
    if (error instanceof SealMissing) return [...chain, wrong("missing", error.message)];
    if (error instanceof SealMalformed) return [...chain, wrong("malformed", error.message)];
    throw error;
  }
  if (!isSealOf(row, stored)) return [...chain, wrong("changed", "is not what its row states")];
  return [...chain, ...balances.follow(stored.seal).map((detail) => wrong("balance", detail))];
}

function isSealOf(row: SealRow, { seal, sha256 }: StoredSeal): boolean {
  const told = [
    [seal.epoch, row.epoch],
    [seal.number, row.number],
    [seal.after, row.after],
    [seal.upTo, row.upTo],
    [seal.afterGroup, row.afterGroup],
    [seal.upToGroup, row.upToGroup],
    [seal.transfers.length, row.transfers],
    [seal.requests.length, row.requests],
    [seal.quotes.length, row.quotes],
    [seal.matches.length, row.matches],
    [seal.previous, row.previous],
    [sha256, row.sha256],
  ];
  return told.every(([one, other]) => one === other);
}

/** The balance of each account, as the seals pass. */
class Balances {
  readonly #fromZero: boolean;
  readonly #balances = new Map<string, bigint>();

  constructor(fromZero: boolean) {
    this.#fromZero = fromZero;
  }

  /** Returns what does not follow. */
  follow({ transfers }: Pick<Seal, "transfers">): string[] {
    const wrong: string[] = [];
    const step = (
      account: SealedAccount,
      asset: string,
      delta: bigint,
      left: bigint,
      id: number,
    ) => {
      const key = keyOf(account, asset);
      const before = this.#balances.get(key) ?? (this.#fromZero ? 0n : left - delta);
      if (before + delta !== left)
        wrong.push(`transfer ${id} leaves ${left} on ${key}; expected ${before + delta}`);
      this.#balances.set(key, left);
    };
    for (const { transferId, from, to, asset, amount, ...left } of transfers) {
      step(from, asset, -amount, left.fromBalance, transferId);
      step(to, asset, amount, left.toBalance, transferId);
    }
    return wrong;
  }

  get(account: SealedAccount, asset: string): bigint | undefined {
    return this.#balances.get(keyOf(account, asset)) ?? (this.#fromZero ? 0n : undefined);
  }
}

function keyOf({ owner, kind }: SealedAccount, asset: string): string {
  return `${owner}/${kind}/${asset}`;
}

const ACCOUNTS_PER_PAGE = 2_000;
const TRANSFERS_PER_PAGE = 5_000;

type AccountRow = SealedAccount & {
  readonly account_id: number;
  readonly asset: string;
  readonly balance: string;
  readonly sealed: string | null;
};

/**
 * Compares the balances after the last seal with those of the database. An account without a later
 * transfer still has that balance; of the others, the first later transfer shows what was before.
 */
async function compareWithDatabase(
  db: D1Database,
  last: SealRow,
  balances: Balances,
): Promise<Discrepancy[]> {
  // Accounts first, so that none of them moves before the transfers are read.
  const accounts = await readAccounts(db);
  const opening = await readOpenings(db, last.upTo);
  return accounts.flatMap((account) => {
    const expected = balances.get(account, account.asset);
    if (expected === undefined) return [];
    const before = opening.get(account.account_id) ?? BigInt(account.balance);
    const sealed = BigInt(account.sealed ?? "0");
    if (before === expected && sealed === expected) return [];
    const detail =
      `${keyOf(account, account.asset)} was ${before} after the seal and is recorded as ` +
      `${sealed}; the seals leave ${expected}`;
    return [{ seal: last.number, kind: "balance" as const, detail }];
  });
}

async function readAccounts(db: D1Database): Promise<AccountRow[]> {
  const accounts: AccountRow[] = [];
  for (let after = 0; ;) {
    const page = await all<AccountRow>(
      db,
      sql`SELECT a.account_id, lower(hex(a.owner)) AS owner, a.kind, a.asset,
          CAST(a.balance AS TEXT) AS balance, CAST(s.balance AS TEXT) AS sealed
        FROM accounts a LEFT JOIN sealed_balances s ON s.account_id = a.account_id
        WHERE a.account_id > ${after} ORDER BY a.account_id LIMIT ${ACCOUNTS_PER_PAGE}`,
    );
    accounts.push(...page);
    const end = page.at(-1);
    if (end === undefined || page.length < ACCOUNTS_PER_PAGE) return accounts;
    after = end.account_id;
  }
}

/** The balance before the first transfer above `upTo`, of each account that has one. */
async function readOpenings(db: D1Database, upTo: number): Promise<Map<number, bigint>> {
  const openings = new Map<number, bigint>();
  const newest = await first<{ id: number | null }>(
    db,
    sql`SELECT max(transfer_id) AS id FROM transfers`,
  );
  for (let after = upTo; after < (newest?.id ?? 0);) {
    const page = await all<{ id: number; account_id: number; before: string }>(
      db,
      sql`WITH page AS MATERIALIZED (SELECT * FROM transfers
          WHERE transfer_id > ${after} AND transfer_id <= ${newest?.id ?? 0}
          ORDER BY transfer_id LIMIT ${TRANSFERS_PER_PAGE})
        SELECT transfer_id AS id, from_account AS account_id,
          CAST(from_balance + amount AS TEXT) AS before FROM page
        UNION ALL
        SELECT transfer_id, to_account, CAST(to_balance - amount AS TEXT) FROM page ORDER BY id`,
    );
    for (const row of page)
      if (!openings.has(row.account_id)) openings.set(row.account_id, BigInt(row.before));
    after = page.at(-1)?.id ?? newest?.id ?? 0;
  }
  return openings;
}
