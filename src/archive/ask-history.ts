/** The archive as the ledger reads it: asks the owner's history, and says 503 if it cannot. */
import { type ColdEntries, type CodedRow, unreachable } from "../ledger/cold-entries.ts";
import { reasonNumber } from "../ledger/codes.ts";
import type { LedgerFilter } from "../ledger/filter.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, blob, first, sql, uuid } from "../platform/sql.ts";
import { ID_LEAD_MS } from "../platform/time.ts";
import type { BlockIndex } from "./block-index.ts";
import { type ColdFilter, timeOf } from "./cold-page.ts";
import type { SealId } from "./footer.ts";

export type Archive = {
  readonly db: D1Database;
  readonly history: { readonly getByName: (name: string) => Pick<BlockIndex, "page" | "count"> };
};

/** The name of an owner's history. Users and house accounts have hexadecimal names. */
export function historyName(owner: string): string {
  return `history:${owner}`;
}

/** The archive has ids without dashes. */
export function bareId(id: string): string {
  return id.replaceAll("-", "").toLowerCase();
}

/** A quote is accepted, and a match is settled, at most so long after its id was made. */
const SOON_MS = 600_000;

export function coldEntries({ db, history }: Archive, userId: string): ColdEntries {
  const owner = bareId(userId);
  const stub = history.getByName(historyName(owner));
  const asked = async (filter: LedgerFilter) => ({
    newest: await newestSeal(db, userId),
    filter: await coldFilter(db, userId, filter),
  });
  return {
    read: (filter, page) =>
      orUnavailable(async () => {
        const { rows, before } = await stub.page(owner, { ...(await asked(filter)), ...page });
        return { rows: await withHashes(db, rows), before };
      }),
    count: (filter, before) =>
      orUnavailable(async () => stub.count(owner, { ...(await asked(filter)), before })),
  };
}

/** A read that needs the history fails if that cannot be reached. */
export async function orUnavailable<Result>(read: () => Promise<Result>): Promise<Result> {
  try {
    return await read();
  } catch (error) {
    log("error", "history.unreachable", errorFields(error));
    throw unreachable();
  }
}

/** The last seal with a block of the user. The ledger asks only if there is one. */
async function newestSeal(db: D1Database, userId: string): Promise<SealId> {
  const newest = await first<SealId>(
    db,
    sql`SELECT s.epoch, s.number FROM sealed_owners o
      CROSS JOIN journal_seals s ON s.number = o.last_seal WHERE o.owner = ${uuid(userId)}`,
  );
  if (newest === undefined) throw new Error(`no seal is known of ${userId}`);
  return newest;
}

/** Blocks contain the ids of deposits. Their transaction hashes stay in the database. */
async function coldFilter(
  db: D1Database,
  userId: string,
  { refId, ...filter }: LedgerFilter,
): Promise<ColdFilter> {
  if (refId === undefined) return filter;
  if (!refId.startsWith("0x")) {
    const id = bareId(refId);
    // It moves for the last time when it ends, which may be days after its id was made.
    const withdrawal = await first<{ from: number; to: number }>(
      db,
      sql`SELECT created_at AS "from", updated_at AS "to" FROM withdrawals
        WHERE withdrawal_id = ${uuid(refId)} AND user_id = ${uuid(userId)}`,
    );
    const made = timeOf(id);
    const { from, to } = withdrawal ?? { from: made - ID_LEAD_MS, to: made + SOON_MS };
    return {
      ...filter,
      from: Math.max(filter.from ?? 0, from),
      to: Math.min(filter.to ?? Infinity, to),
      refs: { deposits: false, ids: [id] },
    };
  }
  const rows = await all<{ id: string; at: number }>(
    db,
    sql`SELECT lower(hex(deposit_id)) AS id, credited_at AS at
      FROM deposits INDEXED BY deposits_hash
      WHERE transaction_hash = ${blob(refId)} AND user_id = ${uuid(userId)}
        AND credited_at IS NOT NULL`,
  );
  const times = rows.map(({ at }) => at);
  return {
    ...filter,
    // No block has them if there is no such deposit.
    from: Math.max(filter.from ?? 0, Math.min(...times)),
    to: Math.min(filter.to ?? Infinity, Math.max(...times)),
    refs: { deposits: true, ids: rows.map(({ id }) => id) },
  };
}

async function withHashes(db: D1Database, rows: readonly CodedRow[]): Promise<CodedRow[]> {
  const isDeposit = ({ reason }: CodedRow) => reason === reasonNumber("deposit");
  const ids = JSON.stringify([...new Set(rows.filter(isDeposit).map(({ ref }) => ref))]);
  if (ids === "[]") return [...rows];
  const found = await all<{ id: string; hash: string }>(
    db,
    sql`SELECT hex(d.deposit_id) AS id, '0x' || lower(hex(d.transaction_hash)) AS hash
      FROM json_each(${ids}) i CROSS JOIN deposits d ON d.deposit_id = unhex(i.value)`,
  );
  const hashes = new Map(found.map(({ id, hash }) => [id, hash]));
  return rows.map((row) => (isDeposit(row) ? { ...row, ref: hashes.get(row.ref) ?? "" } : row));
}
