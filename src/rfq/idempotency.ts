/**
 * Idempotency keys. The key is written in the batch of the effect, and the guard of that batch
 * checks it. A repeat reads the result from the record, which may be in the archive by then.
 *
 * Keys and terms are stored as hashes, because most quotes carry a key: a row takes a tenth of the
 * text. The hash of a key covers its user, so no user can take another one's.
 */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import type { Group } from "../platform/commit.ts";
import { NOW } from "../platform/commit.ts";
import type { Precondition } from "../platform/preconditions.ts";
import type { CommandRow } from "../platform/command-rows.ts";
import { READ } from "../platform/windows.ts";
import {
  atom,
  blob,
  type Columns,
  type Expr,
  expr,
  first,
  jsonObject,
  join,
  jsonText,
  literal,
  readUuid,
  type Sql,
  sql,
} from "../platform/sql.ts";
import { type Result, type Idempotency, reject } from "./command.ts";
import {
  newQuoteColumns,
  newRequestColumns,
  type QuoteRow,
  reader,
  type RequestRow,
} from "./records.ts";

export const KEY_LIFE_MS = READ.replayByKey.ms;

/** Keys are stored by periods, of which this many are a life. */
const PERIODS = 4;

/** 128 bits: a second key of the same hash cannot be found. */
const HASH_BYTES = 16;

export type KeyUse = {
  readonly userId: string;
  readonly route: string;
  readonly kind: "request" | "quote";
  readonly idempotency: Idempotency | undefined;
};

/**
 * Holds when the user has not used this key on this route within 24 hours. Otherwise the earlier
 * result is repeated.
 */
export function keyIsUnused(use: KeyUse, at: Expr): readonly Precondition<EarlierFacts, Result>[] {
  if (use.idempotency === undefined) return [];
  return [
    {
      expr: hashIsUnused(keyHash(use), at),
      reject: ({ earlier }) => recallResult(use, earlier),
    },
  ];
}

/** The fields of a command row that hold its key. Both are null without one. */
export const KEY_FIELDS = { key_hash: "blob", terms_hash: "blob" } as const;
type KeyColumns = Columns<keyof typeof KEY_FIELDS>;

export function keyRow(use: KeyUse): CommandRow<keyof typeof KEY_FIELDS> {
  const { idempotency } = use;
  return idempotency === undefined
    ? { key_hash: null, terms_hash: null }
    : { key_hash: hashOfKey(use), terms_hash: hashOf(idempotency.terms) };
}

/** True without a key, because NULL equals nothing. */
export function hashIsUnused(hash: Expr, at: Expr): Expr {
  return expr`NOT EXISTS (SELECT 1 FROM idempotency_keys k WHERE ${isLive(hash, at)})`;
}

/**
 * Hash of the terms, result and record's id of the command that used the key before, as JSON text.
 * The id is null unless the record has left the database. Null if no command did.
 */
export type EarlierFacts = { readonly earlier: string | null };

const REQUEST = atom("r.request_id");
const QUOTE = atom("q.quote_id");

/** As `earlierFacts`, for a command whose request has left the database. */
export async function readEarlier(db: D1Database, use: KeyUse): Promise<Result | undefined> {
  const row = await first<EarlierFacts>(db, sql`SELECT (${earlierFacts(use).earlier}) AS earlier`);
  return recallResult(use, row?.earlier ?? null);
}

export function earlierFacts(use: KeyUse): Readonly<Record<"earlier", Expr>> {
  const { userId, kind, idempotency } = use;
  if (idempotency === undefined) return { earlier: atom("NULL") };
  // What the record was when it was made: its terms never change.
  const [result, record, id] =
    kind === "request"
      ? [newRequestColumns(reader(userId)), sql`requests r ON r.request_id = k.record_id`, REQUEST]
      : [newQuoteColumns("maker"), sql`quotes q ON q.quote_id = k.record_id`, QUOTE];
  const left = expr`iif(${id} IS NULL, hex(k.record_id), NULL)`;
  return {
    earlier: expr`SELECT ${jsonText(expr`json_array(hex(k.terms_hash), ${jsonObject(result)}, ${left})`)}
      FROM idempotency_keys k LEFT JOIN ${record}
      WHERE ${isLive(keyHash(use), NOW)}`,
  };
}

/**
 * Statements that store the key when the guard before them applied; `record` selects the id of the
 * record that it wrote, or no row otherwise.
 */
export function rememberKey(
  memory: KeyUse & { readonly group: Group; readonly record: Sql },
): Sql[] {
  const { group, idempotency, record } = memory;
  if (idempotency === undefined) return [];
  const key = { key_hash: keyHash(memory), terms_hash: blob(hashOf(idempotency.terms)) };
  return [rememberRow({ key, record, at: group.at })];
}

/** The same over the columns of a command row. `record` selects no row without a key. */
export function rememberRow(memory: {
  readonly key: KeyColumns;
  readonly record: Sql;
  readonly at: Expr;
}): Sql {
  const { key, record, at } = memory;
  return sql`INSERT INTO idempotency_keys (period, key_hash, terms_hash, record_id, at)
    SELECT ${keyPeriod(at)}, ${key.key_hash}, ${key.terms_hash}, a.id, ${at} FROM (${record}) a`;
}

/** Over \`idempotency_keys k\`: the row of this hash, if it is younger than the life of a key. */
function isLive(hash: Expr, at: Expr): Expr {
  const periods = Array.from({ length: PERIODS + 1 }, (_, back) =>
    back === 0 ? keyPeriod(at) : expr`${keyPeriod(at)} - ${literal(back)}`,
  );
  return expr`k.period IN (${join(periods, ", ")}) AND k.key_hash = ${hash}
    AND k.at > ${at} - ${literal(KEY_LIFE_MS)}`;
}

/** The number of the period of an instant. Rows of periods before the live ones are trimmed. */
function keyPeriod(at: Expr): Expr {
  return expr`${at} / ${literal(KEY_LIFE_MS / PERIODS)}`;
}

/** Deletes keys that are older than their life. */
export function trimKeys(rows: number): Sql {
  return sql`DELETE FROM idempotency_keys WHERE (period, key_hash) IN (
    SELECT period, key_hash FROM idempotency_keys
    WHERE period < ${keyPeriod(NOW)} - ${literal(PERIODS)} LIMIT ${rows}) RETURNING 1`;
}

function keyHash(use: KeyUse): Expr {
  return blob(hashOfKey(use));
}

function hashOfKey({ userId, route, idempotency }: KeyUse): string {
  return hashOf(JSON.stringify([userId.toLowerCase(), route, idempotency?.key ?? ""]));
}

const utf8 = new TextEncoder();

/**
 * Upper-case, as SQLite's `hex()` writes it. In JavaScript, because for a text this short a call
 * into the runtime takes longer than the hash.
 */
function hashOf(text: string): string {
  return bytesToHex(sha256(utf8.encode(text)).subarray(0, HASH_BYTES)).toUpperCase();
}

type Earlier = readonly [terms: string, row: RequestRow | QuoteRow, left: string | null];

/**
 * The earlier result of this key, or a rejection when its terms differ. Undefined when the key has
 * expired meanwhile.
 */
export function recallResult(
  { kind, idempotency }: KeyUse,
  earlier: string | null,
): Result | undefined {
  if (earlier === null || idempotency === undefined) return undefined;
  // Safe cast: `earlierFacts` selects the hash and the columns of the row type.
  const [terms, row, left] = JSON.parse(earlier) as Earlier;
  if (terms !== hashOf(idempotency.terms)) {
    return reject("idempotency_key_reused", "This idempotency key was used with another body.");
  }
  if (left !== null)
    return { ok: true, kind: "archived", of: kind, id: readUuid(left), replayed: true };
  // Safe casts: the kind decided which columns were read.
  return kind === "request"
    ? { ok: true, kind, row: row as RequestRow, replayed: true }
    : { ok: true, kind, row: row as QuoteRow, replayed: true };
}
