/** The filters of get-ledger over blocks. Pure. src/ledger/filter.ts has the same ones as SQL. */
import { USDC } from "../assets/asset.ts";
import { readReason, reasonNumber } from "../ledger/codes.ts";
import type { ColdRow } from "../ledger/cold-entries.ts";
import { amountBounds, type LedgerFilter } from "../ledger/filter.ts";
import type { BlockEntries, BlockTransfer, Side } from "./block.ts";
import type { OwnerBlock } from "./footer.ts";

/**
 * A filter on a record selects by the reference that the ledger shows. A transaction hash is
 * resolved to the ids of its deposits first, because blocks contain no hashes.
 */
export type ColdFilter = Omit<LedgerFilter, "refId"> & {
  readonly refs?: { readonly deposits: boolean; readonly ids: readonly string[] } | undefined;
};

/** Whether the block may contain an entry that fits. */
export function mayContain(
  block: Pick<
    OwnerBlock,
    "firstEntry" | "firstAt" | "lastAt" | "smallest" | "largest" | "reasons" | "assets"
  >,
  filter: ColdFilter,
  before: bigint,
): boolean {
  const { least, most } = amountBounds(filter);
  return (
    BigInt(block.firstEntry) < before &&
    block.lastAt >= (filter.from ?? 0) &&
    block.firstAt <= (filter.to ?? Number.MAX_SAFE_INTEGER) &&
    block.largest >= least &&
    block.smallest <= most &&
    (filter.reasons === undefined ||
      filter.reasons.some((reason) => (block.reasons & (1 << reasonNumber(reason))) !== 0)) &&
    wantedAssets(block, filter).includes(true)
  );
}

/** Which of the block's assets the filter selects, in their order. */
export function wantedAssets(
  { assets }: Pick<OwnerBlock, "assets">,
  filter: ColdFilter,
): readonly boolean[] {
  return assets.map((asset) => fitsAsset(asset, filter));
}

export function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 12), 16);
}

/** The entries of a block that fit and are below `before`, newest first. */
export function entriesOf(block: BlockEntries, filter: ColdFilter, before: bigint): ColdRow[] {
  const matchOf = new Map(block.matches.map((row) => [row.quote_id, row.match_id]));
  const { least, most } = amountBounds(filter);
  const rows: ColdRow[] = [];
  for (const transfer of block.transfers) {
    if (transfer.amount < least || transfer.amount > most) continue;
    if (transfer.at < (filter.from ?? 0)) continue;
    if (transfer.at > (filter.to ?? Number.MAX_SAFE_INTEGER)) continue;
    if (filter.reasons !== undefined && !filter.reasons.includes(readReason(transfer.reason)))
      continue;
    if (!fitsAsset(transfer.asset, filter)) continue;
    const ref = shownRef(transfer, matchOf);
    if (!fitsRef(transfer, ref, filter)) continue;
    for (const credit of [0, 1] as const) {
      const row = entryOf(transfer, credit, ref);
      if (row !== undefined && BigInt(row.entry_id) < before && fitsSide(row, credit, filter))
        rows.push(row);
    }
  }
  return rows.toReversed();
}

/** The maker's side of a trade is posted under its quote. The ledger shows the match. */
function shownRef({ reason, ref }: BlockTransfer, matchOf: ReadonlyMap<string, string>): string {
  return reason === reasonNumber("trade") ? (matchOf.get(ref) ?? ref) : ref;
}

function entryOf(transfer: BlockTransfer, credit: 0 | 1, ref: string): ColdRow | undefined {
  const side: Side = credit === 1 ? transfer.to : transfer.from;
  if (side === null || (side.kind !== "available" && side.kind !== "pending")) return undefined;
  return {
    entry_id: 2 * transfer.transferId + credit,
    account: side.kind,
    asset: transfer.asset,
    delta: String(credit === 1 ? transfer.amount : -transfer.amount),
    reason: transfer.reason,
    ref: ref.toUpperCase(),
    balance_after: String(side.balance),
    at: transfer.at,
  };
}

function fitsSide(row: ColdRow, credit: 0 | 1, { account, direction }: ColdFilter): boolean {
  return (
    (account ?? row.account) === row.account &&
    (direction === undefined || (direction === "credit") === (credit === 1))
  );
}

function fitsAsset(asset: string, { usdc, venue, assetId, venues = [] }: ColdFilter): boolean {
  if (usdc === true) return asset === USDC;
  if (assetId !== undefined)
    return (venue === undefined ? venues : [venue]).some((name) => asset === `${name}:${assetId}`);
  if (venue !== undefined) return asset.startsWith(`${venue}:`);
  return usdc !== false || asset !== USDC;
}

function fitsRef(transfer: BlockTransfer, shown: string, { refs }: ColdFilter): boolean {
  if (refs === undefined) return true;
  return (
    (transfer.reason === reasonNumber("deposit")) === refs.deposits && refs.ids.includes(shown)
  );
}
