/**
 * Idempotency keys. The key is written in the batch of the effect, and the guard of that batch
 * checks it. A repeat reads the result from the record, which may be in the archive by then.
 *
 * Most quotes carry a key, and a day of keys stays in the database. So a row is small: hashes of
 * the key and the terms, and the record's id, which contains its time.
 */
import { hash as digestOf } from "node:crypto";
import type { Group } from "../platform/commit.ts";
import { NOW } from "../platform/commit.ts";
import type { Precondition } from "../platform/preconditions.ts";
import type { CommandRow } from "../platform/command-rows.ts";
import { now } from "../platform/time.ts";
import { type Trim, trimUntilDone } from "../platform/trim.ts";
import { idsFrom } from "../platform/uuid.ts";
import { KEPT } from "../platform/windows.ts";
import {
  atom,
  blob,
  type Columns,
  type Expr,
  expr,
  first,
  jsonObject,
  jsonText,
  literal,
  readUuid,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { type Result, type Idempotency, reject } from "./command.ts";
import {
  newQuoteColumns,
  newRequestColumns,
  type QuoteRow,
  reader,
  type RequestRow,
} from "./records.ts";

/**
 * 96 bits. The hash covers the user and the route. So the hash of another user's key cannot be hit,
 * by accident or on purpose: that takes some 2^96 attempts. Two keys of one user with the same hash
 * can be found, but then the second command is rejected, which concerns only that user.
 */
const KEY_HASH_BYTES = 12;

/**
 * 32 bits. It only reveals that the user has repeated a key with other terms by mistake, of which
 * one in four billion is missed: then the user gets the result of the first command, which shows
 * its terms.
 */
const TERMS_HASH_BYTES = 4;

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
    : { key_hash: hashOfKey(use), terms_hash: hashOfTerms(idempotency) };
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
  // What the record was when it was made: its terms never change. One of another user counts as
  // left, and the user's own history does not have it.
  const own = uuid(userId);
  const [result, record, id] =
    kind === "request"
      ? [
          newRequestColumns(reader(userId)),
          sql`requests r ON r.request_id = k.record_id AND r.requester_id = ${own}`,
          REQUEST,
        ]
      : [
          newQuoteColumns("maker"),
          sql`quotes q ON q.quote_id = k.record_id AND q.maker_id = ${own}`,
          QUOTE,
        ];
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
  const key = { key_hash: keyHash(memory), terms_hash: blob(hashOfTerms(idempotency)) };
  return rememberRow({ key, record, at: group.at });
}

/** The same over the columns of a command row. `record` selects no row without a key. */
export function rememberRow(memory: {
  readonly key: KeyColumns;
  readonly record: Sql;
  readonly at: Expr;
}): Sql[] {
  const { key, record, at } = memory;
  return [
    // Of a key that has expired, but has not been trimmed yet.
    sql`DELETE FROM idempotency_keys
      WHERE key_hash = ${key.key_hash} AND record_id < ${oldestLive(at)}`,
    sql`INSERT INTO idempotency_keys (key_hash, terms_hash, record_id)
      SELECT ${key.key_hash}, ${key.terms_hash}, a.id FROM (${record}) a`,
  ];
}

/** Over `idempotency_keys k`: the row of this hash, if it is younger than the life of a key. */
function isLive(hash: Expr, at: Expr): Expr {
  return expr`k.key_hash = ${hash} AND k.record_id > ${oldestLive(at)}`;
}

/**
 * The Worker makes the record's id when it receives the command. The guard of the command limits by
 * how much that may precede `at` (`inTime`), which `KEPT` includes.
 */
function oldestLive(at: Expr): Expr {
  return idsFrom(expr`${at} - ${literal(KEPT.idempotencyKeys)}`);
}

/**
 * Keys have no index by age, because it would take as much room as the keys themselves. Instead,
 * cron reads all keys in turn, some of these parts each minute, by the first two bytes of the hash.
 */
const PARTS = 1_024;
const PARTS_PER_MINUTE = 16;
const HASHES_PER_PART = 2 ** 16 / PARTS;

/** Deletes those keys that have expired, of the parts that are due in this minute. */
export async function trimKeys(db: D1Database, minute = Math.floor(now() / 60_000)): Promise<void> {
  const trims = Array.from({ length: PARTS_PER_MINUTE }, (_, part): Trim => {
    const from = ((minute * PARTS_PER_MINUTE + part) % PARTS) * HASHES_PER_PART;
    const lowest = blob(prefix(from));
    const highest = blob(prefix(from + HASHES_PER_PART - 1).padEnd(2 * KEY_HASH_BYTES, "f"));
    return (rows) => sql`DELETE FROM idempotency_keys WHERE key_hash IN (
      SELECT key_hash FROM idempotency_keys WHERE key_hash BETWEEN ${lowest} AND ${highest}
        AND record_id < ${oldestLive(NOW)} LIMIT ${rows}) RETURNING 1`;
  });
  await trimUntilDone(db, ...trims);
}

/** The minutes in which cron reads all keys once. */
export const TRIM_ROUND_MINUTES = PARTS / PARTS_PER_MINUTE;

function prefix(number: number): string {
  return number.toString(16).padStart(4, "0");
}

function keyHash(use: KeyUse): Expr {
  return blob(hashOfKey(use));
}

function hashOfKey({ userId, route, idempotency }: KeyUse): string {
  const text = JSON.stringify([userId.toLowerCase(), route, idempotency?.key ?? ""]);
  return hashOf(text, KEY_HASH_BYTES);
}

function hashOfTerms({ terms }: Idempotency): string {
  return hashOf(terms, TERMS_HASH_BYTES);
}

/** Upper-case, as SQLite's `hex()` writes it. */
function hashOf(text: string, bytes: number): string {
  return digestOf("sha256", text, "hex")
    .slice(0, 2 * bytes)
    .toUpperCase();
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
  if (terms !== hashOfTerms(idempotency)) {
    return reject("idempotency_key_reused", "This idempotency key was used with another body.");
  }
  if (left !== null)
    return { ok: true, kind: "archived", of: kind, id: readUuid(left), replayed: true };
  // Safe casts: the kind decided which columns were read.
  return kind === "request"
    ? { ok: true, kind, row: row as RequestRow, replayed: true }
    : { ok: true, kind, row: row as QuoteRow, replayed: true };
}
