/** The filters of get-ledger over blocks. Pure. src/ledger/filter.ts has the same ones as SQL. */
import { type AssetKey, USDC } from "../assets/asset.ts";
import { readReason, reasonNumber } from "../ledger/codes.ts";
import type { CodedRow } from "../ledger/cold-entries.ts";
import { amountBounds, type LedgerFilter } from "../ledger/filter.ts";
import { hasAmount } from "./amounts.ts";
import type { FooterBlock } from "./footer.ts";
import type { Owner, SealedTransfer } from "./sealed-columns.ts";

/**
 * Selects by the reference that the ledger shows. A transaction hash is resolved to the ids of its
 * deposits, because seals contain no hashes.
 */
export type ColdFilter = Omit<LedgerFilter, "refId"> & {
  readonly refs?: { readonly deposits: boolean; readonly ids: readonly string[] } | undefined;
};

/** `venues` is no condition: it lists what the deployment has. */
export function isFiltered(filter: ColdFilter): boolean {
  return Object.entries(filter).some(([name, value]) => name !== "venues" && value !== undefined);
}

/** Whether transfers of the owner may contain an entry that fits. */
export function mayContain(block: FooterBlock, filter: ColdFilter, before: bigint): boolean {
  const { least, most } = amountBounds(filter);
  const reasons = block.reasons ?? 0;
  return (
    BigInt(block.low) < before &&
    block.lastAt >= (filter.from ?? 0) &&
    block.firstAt <= (filter.to ?? Number.MAX_SAFE_INTEGER) &&
    (block.largest ?? most) >= least &&
    (block.smallest ?? least) <= most &&
    (filter.reasons === undefined ||
      filter.reasons.some((reason) => (reasons & (1 << reasonNumber(reason))) !== 0)) &&
    wantedAssets(block, filter).length > 0
  );
}

/** Whether an asset that the filter selects has an amount that fits. */
export function mayHaveAmount(block: FooterBlock, amounts: string, filter: ColdFilter): boolean {
  return hasAmount(amounts, wantedAssets(block, filter), amountBounds(filter));
}

/** The places of the block's assets that the filter selects. */
function wantedAssets({ assets }: FooterBlock, filter: ColdFilter): number[] {
  return (assets ?? "")
    .split(" ")
    .flatMap((asset, place) => (fitsAsset(asset, filter) ? [place] : []));
}

/** Of a UUID v7 without dashes: its first six bytes are milliseconds. */
export function timeOf(id: string): number {
  return Number.parseInt(id.slice(0, 12), 16);
}

/** The owner's entries that fit and are below `before`, newest first. */
export function entriesOf(
  transfers: readonly SealedTransfer[],
  owner: Owner,
  filter: ColdFilter,
  before: bigint,
): CodedRow[] {
  const { least, most } = amountBounds(filter);
  const rows: CodedRow[] = [];
  for (const transfer of transfers) {
    if (transfer.amount < least || transfer.amount > most) continue;
    if (transfer.at < (filter.from ?? 0)) continue;
    if (transfer.at > (filter.to ?? Number.MAX_SAFE_INTEGER)) continue;
    if (filter.reasons !== undefined && !filter.reasons.includes(readReason(transfer.reason)))
      continue;
    if (!fitsAsset(transfer.asset, filter)) continue;
    const ref = transfer.match_id ?? transfer.ref;
    if (!fitsRef(transfer, ref, filter)) continue;
    for (const credit of [0, 1] as const) {
      const row = entryOf(transfer, owner, credit, ref);
      if (row !== undefined && BigInt(row.entry_id) < before && fitsSide(row, credit, filter))
        rows.push(row);
    }
  }
  return rows.toReversed();
}

function entryOf(
  transfer: SealedTransfer,
  owner: Owner,
  credit: 0 | 1,
  ref: string,
): CodedRow | undefined {
  const { transfer_id: id, asset, amount, reason, at } = transfer;
  const [sideOwner, account, balance] =
    credit === 1
      ? [transfer.to_owner, transfer.to_kind, transfer.to_balance]
      : [transfer.from_owner, transfer.from_kind, transfer.from_balance];
  if (sideOwner !== owner || (account !== "available" && account !== "pending")) return undefined;
  return {
    entry_id: 2 * id + credit,
    account,
    // Safe cast: the archive contains the keys of assets as the journal had them.
    asset: asset as AssetKey,
    delta: String(credit === 1 ? amount : -amount),
    reason,
    ref: ref.toUpperCase(),
    balance_after: String(balance),
    at,
  };
}

function fitsSide(row: CodedRow, credit: 0 | 1, { account, direction }: ColdFilter): boolean {
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

function fitsRef(transfer: SealedTransfer, shown: string, { refs }: ColdFilter): boolean {
  if (refs === undefined) return true;
  return (
    (transfer.reason === reasonNumber("deposit")) === refs.deposits && refs.ids.includes(shown)
  );
}
