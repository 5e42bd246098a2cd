/** Deposits and withdrawals on the wire (docs/contract.md, section 4), for reads and for events. */
import { checksumAddress } from "../assets/address.ts";
import { toHex } from "../assets/amount.ts";
import { type AssetKey, readAssetKey } from "../assets/asset.ts";
import { fetchCount, olderThan, pageOf, type PageQuery, type TimeId } from "../http/cursor.ts";
import { problem } from "../platform/problem.ts";
import {
  all,
  type Expr,
  expr,
  first,
  join,
  raw,
  jsonObject,
  jsonText,
  readUuid,
  type RowOf,
  select,
  type Sql,
  sql,
  typed,
  uuid,
} from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import type { FailureCode, ListedDepositStatus, WithdrawalStatus } from "./column-values.ts";

/** The messages that `failure` shows beside its code. */
export const FAILURE_MESSAGES: Readonly<Record<FailureCode, string>> = {
  payment_reverted: "The destination or the token refused the payment.",
  operator_failed: "The operator cancelled the withdrawal.",
  approval_expired: "Nobody approved the withdrawal in time.",
};

/** Columns over `deposits d` or `small_deposit_records d`. Bytes are upper-case hex, no `0x`. */
export const DEPOSIT = {
  deposit_id: typed<string>("hex(d.deposit_id)"),
  chain: typed<string>("d.chain"),
  address: typed<string>("hex(d.address)"),
  asset: typed<string>("d.asset"),
  amount: typed<string>("d.amount"),
  transaction_hash: typed<string>("hex(d.transaction_hash)"),
  block_number: typed<number>("d.block_number"),
  confirmations: typed<number>(`(iif(d.status = 'orphaned', 0, max(0, 1 - d.block_number + coalesce(
    (SELECT max(c.head_number, c.confirmed_number) FROM chain_cursors c WHERE c.chain = d.chain),
    d.block_number - 1))))`),
  required_confirmations: typed<number>("d.required_confirmations"),
  status: typed<ListedDepositStatus>("d.status"),
  detected_at: typed<number>("d.detected_at"),
  credited_at: typed<number | null>("d.credited_at"),
};

/** Columns over `withdrawals w`, as those of deposits. */
export const WITHDRAWAL = {
  withdrawal_id: typed<string>("hex(w.withdrawal_id)"),
  job_id: typed<string>("hex(w.job_id)"),
  client_withdrawal_id: typed<string>("w.client_withdrawal_id"),
  chain: typed<string>("w.chain"),
  asset: typed<string>("w.asset"),
  amount: typed<string>("CAST(w.amount AS TEXT)"),
  to_address: typed<string>("hex(w.to_address)"),
  status: typed<WithdrawalStatus>("w.status"),
  approval_expires_at: typed<number | null>("w.approval_expires_at"),
  transaction_hash: typed<string | null>(
    "iif(w.transaction_hash IS NULL, NULL, hex(w.transaction_hash))",
  ),
  failure_code: typed<FailureCode | null>("w.failure_code"),
  failure_message: typed<string | null>("w.failure_message"),
  created_at: typed<number>("w.created_at"),
  updated_at: typed<number>("w.updated_at"),
};

/** Rows as reads select them and events store them. */
export type DepositRow = RowOf<typeof DEPOSIT>;
export type WithdrawalRow = RowOf<typeof WITHDRAWAL>;

/** The row as JSON text, for the facts of a rejection. */
export const WITHDRAWAL_TEXT = jsonText(jsonObject(WITHDRAWAL));

/** Safe cast: `WITHDRAWAL_TEXT` has the columns that the row type lists. */
export function readWithdrawal(text: string): WithdrawalRow {
  return JSON.parse(text) as WithdrawalRow;
}

/** Null for USDC. */
export function assetViewOrUsdc(asset: AssetKey) {
  const token = readAssetKey(asset);
  return { venue_id: token?.venue ?? null, asset_id: token?.assetId ?? null };
}

export function depositView(row: DepositRow) {
  return {
    deposit_id: readUuid(row.deposit_id),
    chain: row.chain,
    address: checksumAddress(row.address),
    ...assetViewOrUsdc(row.asset),
    amount: toHex(BigInt(row.amount)),
    transaction_hash: hashView(row.transaction_hash),
    block_number: row.block_number,
    confirmations: row.confirmations,
    required_confirmations: row.required_confirmations,
    status: row.status,
    created_at: toWireTime(row.detected_at),
    credited_at: toWireTimeOrNull(row.credited_at),
  };
}

export function withdrawalView(row: WithdrawalRow) {
  return {
    withdrawal_id: readUuid(row.withdrawal_id),
    job_id: readUuid(row.job_id),
    client_withdrawal_id: row.client_withdrawal_id,
    chain: row.chain,
    ...assetViewOrUsdc(row.asset),
    amount: toHex(BigInt(row.amount)),
    to_address: checksumAddress(row.to_address),
    status: row.status,
    approval_expires_at: toWireTimeOrNull(row.approval_expires_at),
    transaction_hash: row.transaction_hash === null ? null : hashView(row.transaction_hash),
    failure:
      row.failure_code === null
        ? null
        : { code: row.failure_code, message: row.failure_message ?? "" },
    created_at: toWireTime(row.created_at),
    updated_at: toWireTime(row.updated_at),
  };
}

function hashView(hex: string): string {
  return `0x${hex.toLowerCase()}`;
}

type DepositsQuery = PageQuery<TimeId> & { status?: ListedDepositStatus | undefined };

/** The caller's deposits, newest first. */
export async function listDeposits(db: D1Database, userId: string, query: DepositsQuery) {
  const rows = await all<DepositRow>(db, depositPage(userId, query));
  return pageOf(query, rows, depositView, (row) => ({
    at: row.detected_at,
    id: readUuid(row.deposit_id),
  }));
}

/** Each part reads at most a page from its index. A deposit that moves keeps its instant and id. */
function depositPage(userId: string, query: DepositsQuery): Sql {
  const newest = sql`ORDER BY detected_at DESC, deposit_id DESC LIMIT ${fetchCount(query)}`;
  const part = (table: "deposits" | "small_deposit_records", status: Sql) =>
    sql`SELECT ${select(DEPOSIT)} FROM ${raw(table)} d WHERE d.user_id = ${uuid(userId)}
      AND ${status} AND ${olderThan(query, { at: "d.detected_at", id: "d.deposit_id" })}
      ORDER BY d.detected_at DESC, d.deposit_id DESC LIMIT ${fetchCount(query)}`;
  const { status } = query;
  if (status === "below_minimum") return part("small_deposit_records", sql`1`);
  if (status !== undefined) return part("deposits", sql`d.status = ${status}`);
  return sql`SELECT * FROM (${part("deposits", sql`1`)})
    UNION ALL SELECT * FROM (${part("small_deposit_records", sql`1`)}) ${newest}`;
}

/** The caller's withdrawals, newest first. */
export async function listWithdrawals(
  db: D1Database,
  userId: string,
  query: PageQuery<TimeId> & { status?: WithdrawalStatus | undefined },
) {
  const status = query.status === undefined ? sql`1` : sql`w.status = ${query.status}`;
  const rows = await all<WithdrawalRow>(
    db,
    sql`SELECT ${select(WITHDRAWAL)} FROM withdrawals w WHERE w.user_id = ${uuid(userId)}
      AND ${status} AND ${olderThan(query, { at: "w.created_at", id: "w.withdrawal_id" })}
      ORDER BY w.created_at DESC, w.withdrawal_id DESC LIMIT ${fetchCount(query)}`,
  );
  return pageOf(query, rows, withdrawalView, (row) => ({
    at: row.created_at,
    id: readUuid(row.withdrawal_id),
  }));
}

export type WithdrawalLookup = {
  readonly withdrawal_id?: string | undefined;
  readonly client_withdrawal_id?: string | undefined;
};

/**
 * The spellings under which a client_withdrawal_id may be stored, the canonical one first. One that
 * has the form of a UUID ignores case. The first release stored it as it was given.
 */
export function spellingsOf(clientId: string): readonly [string, ...string[]] {
  if (!/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(clientId)) return [clientId];
  return [clientId.toLowerCase(), clientId, clientId.toUpperCase()];
}

/** Condition over the user's withdrawals: the client gave it this id. */
export function hasClientId(clientId: string): Expr {
  const spelled = spellingsOf(clientId).map((spelling) => sql`${spelling}`);
  return expr`client_withdrawal_id IN (${join(spelled, ", ")})`;
}

/** Of withdrawals of the first release whose ids differ in case, the one that is spelled so. */
export function spelledSo(clientId: string): Sql {
  return sql`ORDER BY w.client_withdrawal_id = ${clientId} DESC LIMIT 1`;
}

/** Throws `withdrawal_unknown` for another user's withdrawal as for one that does not exist. */
export async function findWithdrawal(
  db: D1Database,
  userId: string,
  { withdrawal_id: id, client_withdrawal_id: clientId }: WithdrawalLookup,
): Promise<WithdrawalRow> {
  const matches =
    id === undefined
      ? sql`${hasClientId(clientId ?? "")} ${spelledSo(clientId ?? "")}`
      : sql`w.withdrawal_id = ${uuid(id)}`;
  const row = await first<WithdrawalRow>(
    db,
    sql`SELECT ${select(WITHDRAWAL)} FROM withdrawals w
      WHERE w.user_id = ${uuid(userId)} AND ${matches}`,
  );
  if (row === undefined) throw problem("withdrawal_unknown", "You have no such withdrawal.");
  return row;
}
