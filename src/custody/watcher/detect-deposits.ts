/**
 * Writes transfers to deposit addresses as deposits, and orphans those whose block left the chain
 * unconfirmed. The batch joins the addresses, so no cached list decides what is credited.
 */
import { createHash } from "node:crypto";
import { type AssetKey, readAssetKey } from "../../assets/asset.ts";
import { type Group, NOW } from "../../platform/commit.ts";
import { raiseAlert } from "../../platform/alert.ts";
import { inChunks } from "../../platform/chunks.ts";
import { all, type Expr, expr, raw, readUuid, scalar, type Sql, sql } from "../../platform/sql.ts";
import { depositAddressFor } from "../../chain/addresses.ts";
import type { TokenTransfer } from "../../chain/decode-logs.ts";
import { assetOf } from "../../chain/token.ts";
import { type ChainConfig, minDepositOf, vaultsOf } from "../../platform/config.ts";
import { uuidv7 } from "../../platform/uuid.ts";
import type { WatcherContext } from "./commit-move.ts";

/** A transfer of a configured token as JSON for the batch. Hex without `0x`, amount in decimal. */
export type SeenTransfer = Readonly<ReturnType<typeof toSeenTransfer>>;

/** Limits of addresses and rows in one statement, because a parameter may have 2 MB. */
const ADDRESSES_PER_QUERY = 5_000;
const ROWS_PER_STATEMENT = 1_000;

/**
 * Selects the transfers to deposit addresses. A busy token has thousands of others per range. An
 * address that its row does not derive is omitted, because SQL may have given it to another user.
 */
export async function transfersToUs(
  context: WatcherContext,
  transfers: readonly TokenTransfer[],
): Promise<SeenTransfer[]> {
  const { db, settings, chain } = context;
  const candidates = transfers.filter((transfer) => transfer.amount > 0n);
  const receivers = [...new Set(candidates.map((transfer) => stripPrefix(transfer.to)))];
  const ours = new Set<string>();
  for (const chunk of inChunks(receivers, ADDRESSES_PER_QUERY))
    for (const row of await all<AddressRow>(db, depositAddressesAmong(chain.chain, chunk)))
      if (isDerived(context, row)) ours.add(row.address);
      else await alertAltered(context, row);
  return candidates.flatMap((transfer) => {
    const asset = assetOf(settings, chain, transfer.token, transfer.tokenId);
    return asset !== undefined && ours.has(stripPrefix(transfer.to))
      ? [toSeenTransfer(transfer, asset, { settings, chain })]
      : [];
  });
}

type AddressRow = { readonly address: string; readonly owner: string; readonly nonce: number };

function isDerived({ settings, chain }: WatcherContext, row: AddressRow): boolean {
  const { address } = depositAddressFor(settings, chain, readUuid(row.owner), row.nonce);
  return stripPrefix(address) === row.address;
}

function alertAltered(
  { db, chain: { chain } }: WatcherContext,
  { address, owner, nonce }: AddressRow,
): Promise<void> {
  const detail =
    `0x${address} received a transfer and is not address ${nonce} of user ${readUuid(owner)}, as ` +
    "its row says. The transfer is not credited.";
  return raiseAlert(db, "deposit_address_altered", `${chain}:0x${address}`, detail);
}

/** Selects deposit addresses among receivers. Without CROSS JOIN SQLite would read them all. */
export function depositAddressesAmong(chain: string, receivers: readonly string[]): Sql {
  return sql`SELECT lower(hex(a.address)) AS address, hex(a.user_id) AS owner, a.nonce
    FROM json_each(${JSON.stringify(receivers)}) j
    CROSS JOIN deposit_addresses a ON a.chain = ${chain} AND a.address = unhex(j.value)`;
}

/**
 * Selects the transfers to record above the confirmed height: all that are recorded already, and
 * new ones within the limit. A recorded one that is omitted would be orphaned as unseen.
 */
export async function withinRoom(
  { db, chain }: WatcherContext,
  seen: readonly SeenTransfer[],
): Promise<readonly SeenTransfer[]> {
  if (seen.length === 0) return seen;
  let room = await roomForUnconfirmed(db, chain.chain);
  if (seen.length <= room) return seen;
  const recorded = new Set<string>();
  for (const rows of chunksOf(seen))
    for (const { id } of await all<{ id: string }>(
      db,
      sql`SELECT j.value ->> 'id' AS id FROM json_each(${rows}) j
        WHERE ${recordedDeposit(chain, "status")} IS NOT NULL`,
    ))
      recorded.add(id);
  return seen.filter(({ id, small }) => recorded.has(id) || (!small && room-- > 0));
}

/**
 * Statements that write the transfers as deposits. A transfer that is found again updates its
 * deposit's block, unless it is credited, quarantined or in `small_deposits`. A small one only
 * updates a deposit that was detected under a lower minimum. `when`: the batch's guard applied.
 */
export function recordDeposits(
  group: Group,
  chain: ChainConfig,
  transfers: readonly SeenTransfer[],
  { confirmed, when }: { readonly confirmed: boolean; readonly when: Sql },
): Sql[] {
  const status = expr`coalesce(${recordedDeposit(chain, "status")},
    iif(j.value ->> 'small', 'below_minimum', 'confirming'))`;
  return chunksOf(transfers).map(
    (rows) => sql`INSERT INTO deposits (deposit_id, chain, transaction_hash, token, ordinal,
        position, block_number, block_hash, address, user_id, asset, amount, required_confirmations,
        status, seen_group, confirmed_group, detected_at, detected_group)
      SELECT unhex(j.value ->> 'id', '-'), ${chain.chain}, unhex(j.value ->> 'tx'),
        unhex(j.value ->> 'token'), j.value ->> 'ordinal', j.value ->> 'position',
        j.value ->> 'block', unhex(j.value ->> 'hash'), a.address, a.user_id,
        j.value ->> 'asset', j.value ->> 'amount', ${chain.confirmations}, 'confirming',
        ${group.seq}, ${confirmed ? group.seq : sql`NULL`}, ${group.at}, ${group.seq}
      ${fromOutside(chain, rows, when)} AND ${status} IN ('confirming', 'orphaned')
        AND NOT EXISTS (SELECT 1 FROM small_deposits s WHERE s.key = unhex(j.value ->> 'key'))
      ON CONFLICT (chain, transaction_hash, token, ordinal, position, address) DO UPDATE SET
        block_number = excluded.block_number, block_hash = excluded.block_hash,
        asset = excluded.asset, amount = excluded.amount,
        seen_group = excluded.seen_group, confirmed_group = excluded.confirmed_group,
        detected_group = iif(deposits.status = 'orphaned',
          excluded.detected_group, deposits.detected_group),
        status = 'confirming', ended_group = NULL
      WHERE deposits.status IN ('confirming', 'orphaned')`,
  );
}

/** Transfers or parts of them as JSON, one parameter per statement. */
export function chunksOf(rows: readonly object[]): string[] {
  return inChunks(rows, ROWS_PER_STATEMENT).map((chunk) => JSON.stringify(chunk));
}

/** `FROM … WHERE …` of transfers `j` to addresses `a`, except from vaults or such addresses. */
export function fromOutside(chain: ChainConfig, rows: string, when: Sql): Sql {
  const vaults = JSON.stringify(vaultsOf(chain).map(stripPrefix));
  return sql`FROM json_each(${rows}) j
      CROSS JOIN deposit_addresses a
        ON a.chain = ${chain.chain} AND a.address = unhex(j.value ->> 'to')
      WHERE ${when} AND unhex(j.value ->> 'from') NOT IN (
          SELECT unhex(v.value) FROM json_each(${vaults}) v)
        AND NOT EXISTS (SELECT 1 FROM deposit_addresses o
          WHERE o.chain = ${chain.chain} AND o.address = unhex(j.value ->> 'from'))`;
}

/** Scalar: a column of the deposit that is the transfer `j`. NULL if there is none. */
export function recordedDeposit(chain: ChainConfig, column: "status" | "confirmed_group"): Expr {
  return expr`SELECT k.${raw(column)} FROM deposits k
    WHERE k.chain = ${chain.chain} AND k.transaction_hash = unhex(j.value ->> 'tx')
      AND k.token = unhex(j.value ->> 'token') AND k.ordinal = j.value ->> 'ordinal'
      AND k.position = j.value ->> 'position' AND k.address = unhex(j.value ->> 'to')`;
}

export function toSeenTransfer(
  transfer: TokenTransfer,
  asset: AssetKey,
  { settings, chain }: Pick<WatcherContext, "settings" | "chain">,
) {
  const { ordinal, position, amount } = transfer;
  const floor = minDepositOf(settings, chain, readAssetKey(asset)?.venue ?? null);
  const seen = {
    tx: stripPrefix(transfer.transactionHash),
    token: stripPrefix(transfer.token),
    ordinal,
    position,
    to: stripPrefix(transfer.to),
  };
  return {
    ...seen,
    id: uuidv7(),
    block: transfer.blockNumber,
    hash: stripPrefix(transfer.blockHash),
    from: stripPrefix(transfer.from),
    asset,
    amount: amount.toString(),
    /** Below `floor`, the asset's `min_deposit`. */
    small: amount < BigInt(floor),
    floor,
    /** In `small_deposits`. */
    key: smallDepositKey(chain.chain, transfer, seen),
  };
}

/** Hexadecimal digits of the part that is the same for all transfers of a token to an address. */
export const PAIR_DIGITS = 16;
/** The highest key of such a part is the part and this. */
export const KEY_END = "ff".repeat(9);

/**
 * The key of `small_deposits`: 17 bytes as hex, short because anyone can cause any number of rows.
 * Larger amounts sort first, so that tiny transfers to somebody's address cannot keep others from
 * being counted. Contains the token, not the asset, because settings may rename a venue.
 */
function smallDepositKey(
  chain: string,
  { tokenId, amount, ordinal, position }: TokenTransfer,
  { to, token, tx }: Readonly<Record<"to" | "token" | "tx", string>>,
): string {
  const bits = amount.toString(2).length;
  const size = (64 - Math.min(bits, 64)).toString(16).padStart(2, "0");
  return hash8(`${chain} ${to} ${token} ${tokenId}`) + size + hash8(`${tx} ${ordinal} ${position}`);
}

function hash8(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, PAIR_DIGITS);
}

function stripPrefix(hex: string): string {
  return hex.slice(2).toLowerCase();
}

/**
 * Limit of a chain's deposits that are unconfirmed or were orphaned lately. An endpoint can invent
 * any number of them, and anyone can cause them where a reorg drops them again. Beyond it a new
 * deposit is recorded only at the confirmed height, in the batch that credits it.
 */
export const MAX_UNCONFIRMED = 5_000;
/** An orphaned deposit counts for this time, so that one flood does not hide new ones for longer. */
const COUNTED_MS = 86_400_000;
/** After this time since its detection an orphaned deposit is deleted. */
const ORPHANED_MS = 7 * 86_400_000;
/** Rows that one batch deletes. */
const ROWS_PER_TRIM = 1_000;

/**
 * Orphans the deposits of a range that the latest reading did not find. The same batch has stamped
 * those it found. The row stays, because the same transaction may be mined again.
 */
export function orphanUnseen(
  group: Group,
  { chain, above, upTo, when }: { chain: string; above: number; upTo: number | null; when: Sql },
): Sql {
  return sql`UPDATE deposits SET status = 'orphaned', ended_group = ${group.seq}
    WHERE chain = ${chain} AND status = 'confirming' AND confirmed_group IS NULL
      AND seen_group <> ${group.seq} AND block_number > ${above}
      AND (${upTo} IS NULL OR block_number <= ${upTo}) AND ${when}`;
}

/** How many new deposits above the confirmed height may be recorded now. */
async function roomForUnconfirmed(db: D1Database, chain: string): Promise<number> {
  const counted = expr`(SELECT count(*) FROM deposits INDEXED BY deposits_open
      WHERE chain = ${chain} AND status = 'confirming')
    + (SELECT count(*) FROM deposits INDEXED BY deposits_orphaned
      WHERE chain = ${chain} AND status = 'orphaned' AND detected_at >= ${NOW} - ${COUNTED_MS})`;
  return Math.max(0, MAX_UNCONFIRMED - (await scalar<number>(db, counted)));
}

/** Deletes old orphaned deposits, but none that the reconciliation still compares with events. */
export function trimOrphaned(chain: string): Sql {
  return sql`DELETE FROM deposits WHERE deposit_id IN (
    SELECT deposit_id FROM deposits INDEXED BY deposits_orphaned
    WHERE chain = ${chain} AND status = 'orphaned' AND detected_at < ${NOW} - ${ORPHANED_MS}
      AND ended_group < (SELECT min(seq) FROM commit_groups)
    LIMIT ${ROWS_PER_TRIM})`;
}
