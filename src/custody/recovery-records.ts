/**
 * Copies of records outside the database, for a restore: payer and watcher keep them in their own storage, which putting
 * an older database back does not touch. They are needed no longer than a database can be taken back.
 */

/** D1's Time Travel reaches 30 days back; a day more for whoever restores late. */
export const RETENTION_MS = 31 * 86_400_000;
/** Copies looked at in one go; the next one goes on from there, and begins anew after the last. */
const PAGE = 500;
const PRUNE_EVERY_MS = 3_600_000;
/** Keys that Durable Object storage takes in one call. */
const KEYS_PER_CALL = 128;

/**
 * Deletes what `ended` names of the records under a prefix: one page of them an hour. Those that it keeps for their
 * withdrawal's sake are looked at again in the next turn.
 */
export async function pruneRecords<Stored>(
  storage: DurableObjectStorage,
  prefix: string,
  ended: (records: ReadonlyMap<string, Stored>) => Promise<readonly string[]>,
): Promise<void> {
  const turn = await storage.get<{ at: number; after: string | null }>(`pruned:${prefix}`);
  const now = Date.now();
  if (turn !== undefined && now - turn.at < PRUNE_EVERY_MS) return;
  const after = turn?.after ?? null;
  const page = await storage.list<Stored>({
    prefix,
    limit: PAGE,
    ...(after === null ? {} : { startAfter: after }),
  });
  const doomed = page.size === 0 ? [] : await ended(page);
  for (let start = 0; start < doomed.length; start += KEYS_PER_CALL)
    await storage.delete(doomed.slice(start, start + KEYS_PER_CALL));
  const last = page.size < PAGE ? null : ([...page.keys()].at(-1) ?? null);
  await storage.put(`pruned:${prefix}`, { at: now, after: last });
}

/** Every copy under the prefix, page by page. */
export async function* listRecords<Stored>(
  storage: DurableObjectStorage,
  prefix: string,
): AsyncGenerator<Stored[], void, undefined> {
  for (let after: string | undefined; ;) {
    const page = await storage.list<Stored>({
      prefix,
      limit: PAGE,
      ...(after === undefined ? {} : { startAfter: after }),
    });
    if (page.size > 0) yield [...page.values()];
    if (page.size < PAGE) return;
    after = [...page.keys()].at(-1);
  }
}
