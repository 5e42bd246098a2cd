/**
 * What a seal contains: transfers of the journal, and requests, quotes and matches that ended. Each
 * list of columns is the table's own, in the order in which it is written. A test compares them
 * with the tables.
 */
import type { AccountKind } from "../ledger/tables.ts";
import {
  amount,
  amountOrNull,
  type Columns,
  id,
  idOrNull,
  name,
  nameOrNull,
  near,
  number,
  numberOrNull,
  type RowOf,
  rising,
} from "./columns.ts";

/** A user id or the name of a house account, as hexadecimal. */
export type Owner = string;

export type SealedAccount = { readonly owner: Owner; readonly kind: AccountKind };

/** A transfer with its accounts named, so that a seal can be read without the database. */
export type SealedTransfer = {
  readonly transferId: number;
  readonly from: SealedAccount;
  readonly to: SealedAccount;
  readonly asset: string;
  readonly amount: bigint;
  /** Codes of src/ledger/codes.ts. */
  readonly reason: number;
  readonly step: number;
  readonly line: number;
  /** The id of the record that caused it, as hexadecimal. */
  readonly ref: string;
  readonly at: number;
  /** The balances that the transfer left. */
  readonly fromBalance: bigint;
  readonly toBalance: bigint;
};

/** Sorted by the first column, the record's id. */
type RecordTable<Table extends Columns> = {
  readonly columns: Table;
  /** The columns that name the users whose history contains the record. */
  readonly owners: readonly (keyof Table & string)[];
};

function table<Table extends Columns>(
  columns: Table,
  owners: readonly (keyof Table & string)[],
): RecordTable<Table> {
  return { columns, owners };
}

export const REQUESTS = table(
  {
    request_id: id,
    requester_id: id,
    asset: name,
    amount: amountOrNull,
    usdc_amount: amountOrNull,
    side: name,
    disclosed: number,
    status: name,
    opened_at: rising,
    expires_at: near("opened_at"),
    opened_group: rising,
    label: nameOrNull,
    ended_by: idOrNull,
    ended_group: near("opened_group"),
    stuck_at: numberOrNull,
  },
  ["requester_id"],
);
export type SealedRequest = RowOf<typeof REQUESTS.columns>;

export const QUOTES = table(
  {
    quote_id: id,
    request_id: id,
    maker_id: id,
    credential: id,
    asset: name,
    amount,
    side: name,
    price: number,
    usdc_amount: amount,
    taker_fee: amount,
    maker_fee: amount,
    reserve_asset: name,
    reserve: amount,
    status: name,
    opened_at: rising,
    expires_at: near("opened_at"),
    opened_group: rising,
    label: nameOrNull,
    cancel_reason: nameOrNull,
    replaced_by: idOrNull,
    ended_by: idOrNull,
    ended_group: near("opened_group"),
    stuck_at: numberOrNull,
  },
  ["maker_id"],
);
export type SealedQuote = RowOf<typeof QUOTES.columns>;

export const MATCHES = table(
  {
    match_id: id,
    request_id: id,
    quote_id: id,
    requester_id: id,
    maker_id: id,
    asset: name,
    side: name,
    amount,
    price: number,
    usdc_amount: amount,
    taker_fee: amount,
    maker_fee: amount,
    at: rising,
    matched_group: rising,
    requester_label: nameOrNull,
    maker_label: nameOrNull,
  },
  ["requester_id", "maker_id"],
);
export type SealedMatch = RowOf<typeof MATCHES.columns>;

export type Records = {
  readonly requests: readonly SealedRequest[];
  readonly quotes: readonly SealedQuote[];
  readonly matches: readonly SealedMatch[];
};
