/**
 * Recovery records: copies of withdrawals and addresses in the storage of payer and watcher, which
 * a restore of the database leaves as it is. They are needed while such a restore is possible.
 */
import { inChunks } from "../platform/chunks.ts";

/** D1's Time Travel reaches 30 days back. One more day allows for a late restore. */
export const RETENTION_MS = 31 * 86_400_000;
/** Limit of records in one pass. The next pass continues there, and starts again after the last. */
const PAGE = 500;
/** Pause after the last page, and between pages: 30 000 records an hour. */
const PASS_EVERY_MS = 3_600_000;
const PAGE_EVERY_MS = 60_000;
/** Durable Object storage accepts this many keys per call. */
const KEYS_PER_CALL = 128;

/** Deletes outdated records under a prefix, a page a minute. `outdated` selects their keys. */
export async function pruneRecords<Stored>(
  storage: DurableObjectStorage,
  prefix: string,
  outdated: (records: ReadonlyMap<string, Stored>) => Promise<readonly string[]>,
): Promise<void> {
  const pass = await storage.get<{ at: number; after: string | null }>(`pruned:${prefix}`);
  const now = Date.now();
  const after = pass?.after ?? null;
  const pause = after === null ? PASS_EVERY_MS : PAGE_EVERY_MS;
  if (pass !== undefined && now - pass.at < pause) return;
  const page = await readPage<Stored>(storage, prefix, after);
  const keys = page.size === 0 ? [] : await outdated(page);
  for (const chunk of inChunks(keys, KEYS_PER_CALL)) await storage.delete(chunk);
  await storage.put(`pruned:${prefix}`, { at: now, after: lastOf(page) });
}

export async function* listRecords<Stored>(
  storage: DurableObjectStorage,
  prefix: string,
): AsyncGenerator<Stored[], void, undefined> {
  let after: string | null = null;
  do {
    const page: ReadonlyMap<string, Stored> = await readPage<Stored>(storage, prefix, after);
    if (page.size > 0) yield [...page.values()];
    after = lastOf(page);
  } while (after !== null);
}

export type RecordsAsked = {
  /** Unix milliseconds. */
  readonly since: number;
  readonly after: string;
  readonly limit: number;
};

/** A page of the records made since an instant. `next`: where the next one begins. */
export async function recordsSince<Stored extends { readonly createdAt: number }>(
  storage: DurableObjectStorage,
  prefix: string,
  { since, after, limit }: RecordsAsked,
): Promise<{ records: Stored[]; next: string | null }> {
  const found = await storage.list<Stored>({ prefix, limit, ...(after && { startAfter: after }) });
  return {
    records: [...found.values()].filter(({ createdAt }) => createdAt >= since),
    next: found.size < limit ? null : ([...found.keys()].at(-1) ?? null),
  };
}

/** Durable Object storage accepts this many at once, too. */
export async function putRecords<Stored>(
  storage: DurableObjectStorage,
  records: readonly (readonly [key: string, Stored])[],
): Promise<void> {
  for (const chunk of inChunks(records, KEYS_PER_CALL))
    await storage.put(Object.fromEntries(chunk));
}

function readPage<Stored>(storage: DurableObjectStorage, prefix: string, after: string | null) {
  const place = after === null ? {} : { startAfter: after };
  return storage.list<Stored>({ prefix, limit: PAGE, ...place });
}

/** Where the next page begins. Null after the last one. */
function lastOf(page: ReadonlyMap<string, unknown>): string | null {
  return page.size < PAGE ? null : ([...page.keys()].at(-1) ?? null);
}
