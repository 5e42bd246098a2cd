/**
 * Idempotency keys. A record has the hashes of its key and terms, and the guard of a command looks
 * for a record with the key. A repeat returns that record as it is now. It is in the database for
 * longer than the life of the key.
 */
import { hash as digestOf } from "node:crypto";
import { crc32 } from "node:zlib";
import { NOW } from "../platform/commit.ts";
import type { Precondition } from "../platform/preconditions.ts";
import type { CommandRow } from "../platform/command-rows.ts";
import { idsFrom } from "../platform/uuid.ts";
import { KEY_LIFE_MS } from "../platform/windows.ts";
import {
  atom,
  blob,
  type Columns,
  type Expr,
  expr,
  jsonObject,
  jsonText,
  literal,
  raw,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import {
  type Idempotency,
  type OpenRequest,
  type PlaceQuote,
  reject,
  type Result,
} from "./command.ts";
import {
  quoteColumns,
  type QuoteRow,
  reader,
  requestColumns,
  type RequestRow,
} from "./rfq-records.ts";

/**
 * 96 bits over user, route and key, so to hit another user's key takes some 2^96 attempts. A user
 * can find two own keys with one hash. Then the second command is rejected.
 */
const KEY_HASH_BYTES = 12;

type Keyed = Pick<OpenRequest | PlaceQuote, "op" | "actor" | "idempotency">;

/** Holds when the key is unused on its route. Otherwise the earlier result is repeated. */
export function keyIsUnused(
  command: Keyed,
  at: Expr,
): readonly Precondition<EarlierFacts, Result>[] {
  if (command.idempotency === undefined) return [];
  return [
    {
      expr: hashIsUnused(command.op, blob(hashOfKey(command)), at),
      reject: ({ earlier }) => recallResult(command, earlier),
    },
  ];
}

/** The fields of a command row that hold its key. Both are null without one. */
export const KEY_FIELDS = { key_hash: "blob", terms_hash: "blob" } as const;

export function keyRow(command: Keyed): CommandRow<keyof typeof KEY_FIELDS> {
  const { idempotency } = command;
  return idempotency === undefined
    ? { key_hash: null, terms_hash: null }
    : { key_hash: hashOfKey(command), terms_hash: hashOfTerms(idempotency) };
}

/** The records that commands make. The route is part of the hash. */
const RECORDS = {
  open_request: {
    route: "POST /rfq/request",
    table: raw("requests"),
    index: raw("requests_key"),
    id: raw("request_id"),
  },
  place_quote: {
    route: "POST /rfq/quote",
    table: raw("quotes"),
    index: raw("quotes_key"),
    id: raw("quote_id"),
  },
} as const;

/** FROM clause: the record, as `alias`, that this key has made and still belongs to. */
function keyedRecord(op: Keyed["op"], alias: Sql, { hash, at }: { hash: Expr; at: Expr }): Sql {
  const { table, index, id } = RECORDS[op];
  // The Worker makes the record's id when it receives the command. The guard of the command limits
  // by how much that may precede `at` (`inTime`), which `KEY_LIFE_MS` includes.
  const oldest = idsFrom(expr`${at} - ${literal(KEY_LIFE_MS)}`);
  return sql`${table} ${alias} INDEXED BY ${index}
    WHERE ${alias}.key_hash = ${hash} AND ${alias}.${id} > ${oldest}`;
}

/** True without a key, because NULL equals nothing. */
export function hashIsUnused(op: Keyed["op"], hash: Expr, at: Expr): Expr {
  return expr`NOT EXISTS (SELECT 1 FROM ${keyedRecord(op, raw("k"), { hash, at })})`;
}

/** Hash of the key's terms, and its record as it is now, as JSON text. Null without one. */
export type EarlierFacts = { readonly earlier: string | null };

export function earlierFacts(command: Keyed): Columns<"earlier"> {
  const { actor, op, idempotency } = command;
  if (idempotency === undefined) return { earlier: atom("NULL") };
  const { userId } = actor;
  const key = { hash: blob(hashOfKey(command)), at: NOW };
  const [result, record, owner] =
    op === "open_request"
      ? [requestColumns(reader(userId)), keyedRecord(op, raw("r"), key), raw("requester_id")]
      : [quoteColumns("maker"), keyedRecord(op, raw("q"), key), raw("maker_id")];
  return {
    earlier: expr`SELECT ${jsonText(expr`json_array(hex(terms_hash), ${jsonObject(result)})`)}
      FROM ${record} AND ${owner} = ${uuid(userId)}`,
  };
}

/** Upper-case, as SQLite's `hex()` writes it. */
function hashOfKey({ op, actor, idempotency }: Keyed): string {
  return keyHash(actor.userId, RECORDS[op].route, idempotency?.key ?? "");
}

export function keyHash(userId: string, route: string, key: string): string {
  const text = JSON.stringify([userId.toLowerCase(), route, key]);
  return digestOf("sha256", text, "hex")
    .slice(0, 2 * KEY_HASH_BYTES)
    .toUpperCase();
}

/**
 * A checksum of 32 bits that reveals a key repeated with other terms by mistake. Of these one in
 * four billion is missed: the user gets the first command's result, which shows its terms.
 */
export function hashOfTerms({ terms }: Pick<Idempotency, "terms">): string {
  return crc32(terms).toString(16).padStart(8, "0").toUpperCase();
}

type Earlier = readonly [terms: string, row: RequestRow | QuoteRow];

/** The key's earlier result, or a rejection if its terms differ. Undefined if it has expired. */
export function recallResult(
  { op, idempotency }: Keyed,
  earlier: string | null,
): Result | undefined {
  if (earlier === null || idempotency === undefined) return undefined;
  // Safe cast: `earlierFacts` selects the hash and the columns of the row type.
  const [terms, row] = JSON.parse(earlier) as Earlier;
  if (terms !== hashOfTerms(idempotency)) {
    return reject("idempotency_key_reused", "This idempotency key was used with another body.");
  }
  // Safe casts: the command decided which columns were read.
  return op === "open_request"
    ? { ok: true, kind: "request", row: row as RequestRow, replayed: true }
    : { ok: true, kind: "quote", row: row as QuoteRow, replayed: true };
}
