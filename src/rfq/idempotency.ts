/**
 * Idempotency keys. Key, terms and result are written in the batch of the effect, and the guard of
 * that batch checks the key.
 */
import type { Group } from "../platform/commit.ts";
import { NOW } from "../platform/commit.ts";
import type { Precondition } from "../platform/preconditions.ts";
import { atom, type Expr, expr, jsonText, type Sql, sql, uuid } from "../platform/sql.ts";
import { type Result, type Idempotency, reject } from "./command.ts";
import type { QuoteRow, RequestRow } from "./records.ts";

export const KEY_LIFE_MS = 24 * 3_600_000;

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
  const { userId, route, kind, idempotency } = use;
  if (idempotency === undefined) return [];
  return [
    {
      expr: expr`NOT EXISTS (SELECT 1 FROM idempotency_keys WHERE user_id = ${uuid(userId)}
        AND route = ${route}
        AND key = ${idempotency.key} AND at > ${at} - ${KEY_LIFE_MS})`,
      reject: ({ earlier }) => recallResult(kind, idempotency, earlier),
    },
  ];
}

/** Terms and result of the command that used the key before, as JSON text. Null if none did. */
export type EarlierFacts = { readonly earlier: string | null };

export function earlierFacts(use: KeyUse): Readonly<Record<"earlier", Expr>> {
  const { userId, route, idempotency } = use;
  if (idempotency === undefined) return { earlier: atom("NULL") };
  return {
    earlier: expr`SELECT ${jsonText(atom("json_array(terms, result)"))} FROM idempotency_keys
      WHERE user_id = ${uuid(userId)} AND route = ${route} AND key = ${idempotency.key}
        AND at > ${NOW} - ${KEY_LIFE_MS}`,
  };
}

/**
 * Statements that store the result when the guard before them applied; `result` selects no row
 * otherwise.
 */
export function rememberResult(memory: {
  readonly group: Group;
  readonly userId: string;
  readonly route: string;
  readonly idempotency: Idempotency | undefined;
  readonly result: Sql;
}): Sql[] {
  const { group, userId, route, idempotency, result } = memory;
  if (idempotency === undefined) return [];
  return [
    sql`DELETE FROM idempotency_keys WHERE user_id = ${uuid(userId)} AND route = ${route}
      AND key = ${idempotency.key}
      AND at <= ${group.at} - ${KEY_LIFE_MS}`,
    sql`INSERT INTO idempotency_keys (user_id, route, key, terms, result, at)
      SELECT ${uuid(userId)}, ${route}, ${idempotency.key}, ${idempotency.terms}, a.result,
        ${group.at} FROM (${result}) a`,
  ];
}

/**
 * The earlier result of this key, or a rejection when its terms differ. Undefined when the key has
 * expired meanwhile.
 */
function recallResult(
  kind: KeyUse["kind"],
  idempotency: Idempotency,
  earlier: string | null,
): Result | undefined {
  if (earlier === null) return undefined;
  // Safe cast: `earlierFacts` selects these two texts.
  const [terms, result] = JSON.parse(earlier) as [string, string];
  if (terms !== idempotency.terms) {
    return reject("idempotency_key_reused", "This idempotency key was used with another body.");
  }
  return kind === "request"
    ? { ok: true, kind, row: storedRow<RequestRow>(result), replayed: true }
    : { ok: true, kind, row: storedRow<QuoteRow>(result), replayed: true };
}

/** Safe cast: the text is a `json_object` of the columns that the row type lists. */
function storedRow<Row>(text: string): Row {
  return JSON.parse(text) as Row;
}
