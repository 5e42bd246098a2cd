/** Blocks of a user's requests and quotes, which stay in R2. Their history knows where they are. */
import { lastSealOf } from "../ledger/released.ts";
import { first, sql } from "../platform/sql.ts";
import type { OwnRecords } from "./ask-history.ts";
import type { FooterBlock, SealId } from "./footer.ts";
import { readIndexed } from "./history-tables.ts";
import type { SealedRow } from "./sealed-columns.ts";
import { openBlock } from "./seal-format.ts";
import { readBlock } from "./seal-store.ts";

export type ExportedKind = "requests" | "quotes";
export type ExportedBlock = { readonly id: SealId; readonly block: FooterBlock };

/** Instants of openings, both included, and the seal after which the blocks begin. */
export type ExportedRange = {
  readonly from: number;
  readonly to: number;
  readonly after: number;
  readonly limit: number;
};

/** The first blocks that may have such records, in the order of their seals. */
export async function exportedBlocks(
  { db, old }: OwnRecords,
  userId: string,
  kind: ExportedKind,
  { from, to, after, limit }: ExportedRange,
): Promise<ExportedBlock[]> {
  const newest = await first<SealId>(db, lastSealOf(userId));
  if (newest === undefined) return [];
  const [rows = []] = await old(newest, [
    sql`SELECT number, epoch, block FROM exported
      WHERE kind = ${kind} AND last_at >= ${from} AND first_at <= ${to} AND number > ${after}
      ORDER BY number LIMIT ${limit}`,
  ]);
  // Safe cast: the columns of the statement.
  return (rows as (SealId & { readonly block: string })[]).map(({ number, epoch, block }) => ({
    id: { number, epoch },
    block: readIndexed(block),
  }));
}

/** The rows of a block. Throws unless they are what the seal's hash proves. */
export async function readExported<K extends ExportedKind>(
  bucket: Pick<R2Bucket, "get">,
  kind: K,
  { id, block }: ExportedBlock,
): Promise<SealedRow<K>[]> {
  return openBlock(kind, await readBlock(bucket, id, block), block);
}
