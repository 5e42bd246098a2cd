/**
 * What a seal contains: transfers of the journal, and requests, quotes and matches that ended. Each
 * list of columns is the table's own. A test compares them with the tables. A new column must be
 * nullable here, because older seals lack it.
 */
import {
  amount,
  type TextColumns,
  hex,
  number,
  orNull,
  type TextRowOf,
  text,
} from "./column-text.ts";

/** A user id or the name of a house account, as hexadecimal. */
export type Owner = string;

/** Sorted by the first column, which is the row's id. */
type Table<Cols extends TextColumns> = {
  readonly columns: Cols;
  readonly id: keyof Cols & string;
  /** The columns that name the owners whose history contains the row. */
  readonly owners: readonly (keyof Cols & string)[];
};

function table<Cols extends TextColumns>(
  columns: Cols,
  id: keyof Cols & string,
  owners: readonly (keyof Cols & string)[],
): Table<Cols> {
  return { columns, id, owners };
}

/** A transfer with its accounts named, so that a seal can be read without the database. */
export const TRANSFERS = table(
  {
    transfer_id: number,
    from_owner: hex,
    from_kind: text,
    to_owner: hex,
    to_kind: text,
    asset: text,
    amount,
    /** Codes of src/ledger/codes.ts. */
    reason: number,
    step: number,
    line: number,
    /** The id of the record that caused it. */
    ref: hex,
    /** The match of a trade that is posted under its quote. The ledger shows this one. */
    match_id: orNull(hex),
    at: number,
    /** The balances that the transfer left. */
    from_balance: amount,
    to_balance: amount,
  },
  "transfer_id",
  ["from_owner", "to_owner"],
);
export type SealedTransfer = TextRowOf<typeof TRANSFERS.columns>;

export const REQUESTS = table(
  {
    request_id: hex,
    requester_id: hex,
    asset: text,
    amount: orNull(amount),
    usdc_amount: orNull(amount),
    side: text,
    disclosed: number,
    status: text,
    opened_at: number,
    expires_at: number,
    opened_group: number,
    label: orNull(text),
    ended_by: orNull(hex),
    ended_group: number,
    stuck_at: orNull(number),
  },
  "request_id",
  ["requester_id"],
);
export type SealedRequest = TextRowOf<typeof REQUESTS.columns>;

export const QUOTES = table(
  {
    quote_id: hex,
    request_id: hex,
    maker_id: hex,
    credential: hex,
    asset: text,
    amount,
    side: text,
    price: number,
    usdc_amount: amount,
    taker_fee: amount,
    maker_fee: amount,
    reserve_asset: text,
    reserve: amount,
    status: text,
    opened_at: number,
    expires_at: number,
    opened_group: number,
    label: orNull(text),
    cancel_reason: orNull(text),
    replaced_by: orNull(hex),
    ended_by: orNull(hex),
    ended_group: number,
    stuck_at: orNull(number),
    complement: orNull(text),
  },
  "quote_id",
  ["maker_id"],
);
export type SealedQuote = TextRowOf<typeof QUOTES.columns>;

export const MATCHES = table(
  {
    match_id: hex,
    request_id: hex,
    quote_id: hex,
    requester_id: hex,
    maker_id: hex,
    asset: text,
    side: text,
    amount,
    price: number,
    usdc_amount: amount,
    taker_fee: amount,
    maker_fee: amount,
    at: number,
    matched_group: number,
    requester_label: orNull(text),
    maker_label: orNull(text),
    complement: orNull(text),
  },
  "match_id",
  ["requester_id", "maker_id"],
);
export type SealedMatch = TextRowOf<typeof MATCHES.columns>;

/** In the order in which a seal contains them. */
export const TABLES = {
  transfers: TRANSFERS,
  requests: REQUESTS,
  quotes: QUOTES,
  matches: MATCHES,
} as const;
export type Kind = keyof typeof TABLES;
export const KINDS = ["transfers", "requests", "quotes", "matches"] as const;

export type SealedRow<K extends Kind> = TextRowOf<(typeof TABLES)[K]["columns"]>;
export type Content = { readonly [K in Kind]: readonly SealedRow<K>[] };

/** Safe cast: `id` names a column whose values are numbers or texts. */
export function idOf(kind: Kind, row: object): number | string {
  return Reflect.get(row, TABLES[kind].id) as number | string;
}

export function ownersOf(kind: Kind, row: object): Set<Owner> {
  return new Set(TABLES[kind].owners.map((column) => String(Reflect.get(row, column))));
}
