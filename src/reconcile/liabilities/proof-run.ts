/** The row of a day's proof, and its objects in R2. */
import { createHmac } from "node:crypto";
import type { AssetKey } from "../../assets/asset.ts";
import { type MacKeys, secretOf } from "../../audit/event-mac.ts";
import { DELIVERED } from "../../ledger/released.ts";
import type { OnceBucket } from "../../platform/put-once.ts";
import { atom, type Expr, expr, literal, sql } from "../../platform/sql.ts";

export const DAY_MS = 86_400_000;

export type ProofBucket = OnceBucket & Pick<R2Bucket, "get">;

export type ProofRun = {
  readonly day: number;
  readonly up_to_transfer: number;
  readonly accounts: number;
  readonly slice_accounts: number;
  readonly key_id: string;
  readonly slices: number;
  readonly published_at: number | null;
};
export const RUN_COLUMNS = sql`day, up_to_transfer, accounts, slice_accounts, key_id, slices,
  published_at`;

/** Transfers after a cut with which it is given up, because each slice reads them all. */
const MAX_SINCE_CUT = 100_000;

/** Scalar: the id of the newest transfer, or 0. */
export const NEWEST_TRANSFER: Expr = expr`coalesce((SELECT max(transfer_id) FROM transfers), 0)`;

/** Condition: the transfers after this one are all in the database, and not too many. */
export function isFresh(transfer: Expr): Expr {
  return expr`${transfer} >= max(${DELIVERED}, ${NEWEST_TRANSFER} - ${literal(MAX_SINCE_CUT)})`;
}

/** Condition on a row: it is published, complete, or its cut is fresh. Else another cut is taken. */
export function canContinue(row: string): Expr {
  const column = (name: string) => atom(`${row}.${name}`);
  return expr`(${column("published_at")} IS NOT NULL OR ${isFresh(column("up_to_transfer"))}
    OR ${column("slices")} * ${column("slice_accounts")} >= ${column("accounts")})`;
}

/** As in `2026-11-28`. */
export function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10);
}

/** The leaves of one asset in one slice: where they are in its object, and the root over them. */
export type LeafBlock = {
  readonly asset: AssetKey;
  readonly slice: number;
  readonly offset: number;
  readonly leaves: number;
  readonly root: string;
  readonly sum: string;
};

/** Where the blocks of each asset are in the object `blocks`, in bytes. */
export type BlockIndex = Readonly<Record<AssetKey, { offset: number; length: number }>>;

/** Of `cut`, `<slice>`, `<slice>.json`, `blocks` and `blocks.json`. */
export function objectKey(
  { day, up_to_transfer: transfer }: Pick<ProofRun, "day" | "up_to_transfer">,
  name: string,
): string {
  return `liabilities/${dayText(day)}/${transfer}/${name}`;
}

/** Of the signed record. */
export function recordKey(day: string): string {
  return `liabilities/${day}.jws`;
}

/** Throws if the object is not there. */
export async function readObject(
  bucket: Pick<R2Bucket, "get">,
  key: string,
  range?: { offset: number; length: number },
): Promise<R2ObjectBody> {
  const object = await bucket.get(key, range === undefined ? {} : { range });
  if (object === null) throw new Error(`the archive has no object ${key}`);
  return object;
}

/**
 * Returns the salt of a user's leaf, and its place among the others. Both are new each day, and
 * without AUDIT_KEYS nobody finds a user by them.
 */
export function placesOf(
  settings: MacKeys,
  { day, up_to_transfer: transfer, key_id: keyId }: ProofRun,
): (userId: string, asset: AssetKey) => { readonly salt: Buffer; readonly place: bigint } {
  const secret = secretOf(settings, keyId, "liabilities v1", [String(day), String(transfer)]);
  return (userId, asset) => {
    const bytes = createHmac("sha512", secret).update(`${userId}\n${asset}`).digest();
    return { salt: bytes.subarray(0, 32), place: bytes.readBigUInt64BE(32) };
  };
}
