/**
 * The parts of `journal verify` (verify-parts.ts), each of which one call reads: seals, each
 * against its row, the row against the signed audit event of the seal, and the chain of hashes; and
 * what the database states of owners and balances after the last seal.
 */
import type { MacKeys } from "../audit/event-mac.ts";
import { all, sql } from "../platform/sql.ts";
import { SealMalformed } from "./column-text.ts";
import { GENESIS, SealDiffers, type SealRef } from "./footer.ts";
import { linksIn } from "./owner-ends.ts";
import type { Seal } from "./seal-format.ts";
import { KINDS } from "./sealed-columns.ts";
import { readSeal, type SealBucket, SealMissing, type StoredSeal } from "./seal-store.ts";
import { lastSeals, readOwnerRows, readSealEvents, readSeals, type SealRow } from "./seal-row.ts";
import {
  type AccountsPart,
  causesFirst,
  type CheckedSeal,
  type Discrepancy,
  type Moved,
  type OwnersPart,
  type SealsPart,
} from "./verify-parts.ts";

/** What one call reads at most. */
export type PartLimits = {
  /** An invocation may read a thousand objects. */
  readonly seals: number;
  /** Those of the seals together, unless one has more. */
  readonly rows: number;
  readonly accounts: number;
};

export const LIMITS: PartLimits = { seals: 500, rows: 50_000, accounts: 5_000 };

type SealsContext = {
  readonly db: D1Database;
  readonly bucket: SealBucket;
  readonly macKeys: MacKeys;
  readonly limits?: PartLimits;
};

/** Reads from seal `from` on. */
export async function verifySeals(
  { db, bucket, macKeys, limits = LIMITS }: SealsContext,
  from: number,
  most = limits.seals,
): Promise<SealsPart> {
  const limit = Math.min(most, limits.seals);
  const start = Math.max(1, from - 1);
  // With the one before, whose hash the first one names, and the one that would come next.
  const following = await readSeals(
    db,
    sql`WHERE number >= ${start} ORDER BY number LIMIT ${limit + (from - start) + 1}`,
  );
  // Somebody may have deleted it.
  const before = (following[0]?.number ?? from) < from ? following.shift() : undefined;
  const rows = following.slice(0, countWithin(following.slice(0, limit), limits.rows));
  const end = rows.at(-1)?.number ?? from - 1;
  const events = await readSealEvents(db, macKeys, [...rows.map(({ number }) => number), end + 1]);
  const seals: CheckedSeal[] = [];
  let previous = before?.sha256 ?? GENESIS;
  for (const row of rows) {
    const { content, discrepancies } = await verifySeal(bucket, row, previous);
    const { epoch, number, sha256, transfers, bytes } = row;
    const wrong = causesFirst([...unsigned(row, events), ...discrepancies]);
    const head = { epoch, number, sha256, transfers, bytes };
    seals.push({ head, content, discrepancies: wrong });
    previous = row.sha256;
  }
  if (following.length > rows.length) return { seals, more: true, missing: [] };
  // One may have been stored meanwhile.
  const [newest] = await lastSeals(db, 1);
  const more = (newest?.number ?? 0) > end;
  const isMissing = !more && events.some(({ number }) => number === end + 1);
  const detail = "its row is missing";
  return { seals, more, missing: isMissing ? [{ seal: end + 1, kind: "missing", detail }] : [] };
}

/** How many of the first seals have so many rows together; at least one. */
function countWithin(seals: readonly SealRow[], most: number): number {
  let sum = 0;
  const beyond = seals.findIndex((row) => {
    for (const kind of KINDS) sum += row[kind];
    return sum > most;
  });
  return beyond === -1 ? seals.length : Math.max(1, beyond);
}

function unsigned(row: SealRow, events: readonly SealRef[]): Discrepancy[] {
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
): Promise<Omit<CheckedSeal, "head">> {
  const wrong = (kind: Discrepancy["kind"], detail: string) => ({ seal: row.number, kind, detail });
  const chain = row.previous === previous ? [] : [wrong("chain", "names another previous hash")];
  const unreadable = (kind: Discrepancy["kind"], detail: string) => ({
    content: null,
    discrepancies: [...chain, wrong(kind, detail)],
  });
  let stored: StoredSeal;
  try {
    stored = await readSeal(bucket, row);
  } catch (error) {
    if (error instanceof SealMissing) return unreadable("missing", error.message);
    if (error instanceof SealDiffers) return unreadable("changed", error.message);
    if (error instanceof SealMalformed) return unreadable("malformed", error.message);
    throw error;
  }
  if (!isSealOf(row, stored)) return unreadable("changed", "is not what its row states");
  const { moved, breaks } = balancesIn(stored.seal);
  return {
    content: { moved, owners: linksIn(stored.footer) },
    discrepancies: [...chain, ...breaks.map((detail) => wrong("balance", detail))],
  };
}

/** It has the row's hash. */
function isSealOf(row: SealRow, { seal }: StoredSeal): boolean {
  const head = ["epoch", "number", "previous", "after", "upTo", "afterGroup", "upToGroup"] as const;
  return (
    head.every((name) => seal[name] === row[name]) &&
    KINDS.every((kind) => seal[kind].length === row[kind])
  );
}

/** What a seal moves, and what of it does not follow. The first balances are taken as given. */
function balancesIn({ transfers }: Pick<Seal, "transfers">): { moved: Moved[]; breaks: string[] } {
  const balances = new Map<string, { readonly before: bigint; readonly after: bigint }>();
  const breaks: string[] = [];
  const step = (account: string, delta: bigint, left: bigint, id: number) => {
    const known = balances.get(account) ?? { before: left - delta, after: left - delta };
    const expected = known.after + delta;
    if (expected !== left)
      breaks.push(`transfer ${id} leaves ${left} on ${account}; expected ${expected}`);
    balances.set(account, { before: known.before, after: left });
  };
  for (const { transfer_id: id, asset, amount, ...row } of transfers) {
    step(`${row.from_owner}/${row.from_kind}/${asset}`, -amount, row.from_balance, id);
    step(`${row.to_owner}/${row.to_kind}/${asset}`, amount, row.to_balance, id);
  }
  const moved = Array.from(balances, ([account, { before, after }]) => ({
    account,
    before: String(before),
    after: String(after),
  }));
  return { moved, breaks };
}

/** Accounts, with the seal that was newest when they were read: one statement sees one instant. */
export async function readAccounts(
  db: D1Database,
  after: number,
  { accounts: limit } = LIMITS,
): Promise<AccountsPart> {
  const rows = await all<AccountsPart["accounts"][number] & { seal: number }>(
    db,
    sql`SELECT a.account_id AS id,
        lower(hex(a.owner)) || '/' || a.kind || '/' || a.asset AS account,
        CAST(coalesce(s.balance, 0) AS TEXT) AS sealed,
        (SELECT coalesce(max(number), 0) FROM journal_seals) AS seal
      FROM accounts a LEFT JOIN sealed_balances s ON s.account_id = a.account_id
      WHERE a.account_id > ${after} ORDER BY a.account_id LIMIT ${limit}`,
  );
  const accounts = rows.map(({ id, account, sealed }) => ({ id, account, sealed }));
  return { seal: rows[0]?.seal ?? 0, accounts };
}

/** Rows of `sealed_owners` after an owner, with the newest seal when they were read. */
export function readOwners(
  db: D1Database,
  after: string,
  { accounts: limit } = LIMITS,
): Promise<OwnersPart> {
  return readOwnerRows(db, sql`o.owner > unhex(${after}) ORDER BY o.owner LIMIT ${limit}`);
}
