/** Idempotency keys: key, terms and result are written in the batch of the effect, as part of its guard. */
import type { Group } from "../platform/commit.ts";
import { NOW } from "../platform/commit.ts";
import { first, type Sql, sql, uuid } from "../platform/sql.ts";
import { type Result, type Idempotency, reject } from "./command.ts";
import type { QuoteRow, RequestRow } from "./records.ts";

const KEY_LIFE_MS = 24 * 3_600_000;

/** Condition for a guard: the user has not used this key on this route in the last 24 hours. */
export function keyIsFree(
  userId: string,
  route: string,
  idempotency: Idempotency | undefined,
  at: Sql,
): Sql {
  if (idempotency === undefined) return sql`1`;
  return sql`NOT EXISTS (SELECT 1 FROM idempotency_keys WHERE user_id = ${uuid(userId)} AND route = ${route}
    AND key = ${idempotency.key} AND at > ${at} - ${KEY_LIFE_MS})`;
}

/** Statements that keep the result, if the guard before them applied: `result` selects nothing otherwise. */
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
    sql`DELETE FROM idempotency_keys WHERE user_id = ${uuid(userId)} AND route = ${route} AND key = ${idempotency.key}
      AND at <= ${group.at} - ${KEY_LIFE_MS}`,
    sql`INSERT INTO idempotency_keys (user_id, route, key, terms, result, at)
      SELECT ${uuid(userId)}, ${route}, ${idempotency.key}, ${idempotency.terms}, a.result, ${group.at} FROM (${result}) a`,
  ];
}

/** The earlier result to the same key; a refusal when its terms were others; undefined when the key is free. */
export async function recallResult(
  db: D1Database,
  memory: {
    readonly userId: string;
    readonly route: string;
    readonly kind: "request" | "quote";
    readonly idempotency: Idempotency | undefined;
  },
): Promise<Result | undefined> {
  const { userId, route, kind, idempotency } = memory;
  if (idempotency === undefined) return undefined;
  const row = await first<{ terms: string; result: string }>(
    db,
    sql`SELECT terms, result FROM idempotency_keys WHERE user_id = ${uuid(userId)} AND route = ${route}
      AND key = ${idempotency.key} AND at > ${NOW} - ${KEY_LIFE_MS}`,
  );
  if (row === undefined) return undefined;
  if (row.terms !== idempotency.terms) {
    return reject("idempotency_key_reused", "This idempotency key was used with another body.");
  }
  return kind === "request"
    ? { ok: true, kind, row: storedRow<RequestRow>(row.result), replayed: true }
    : { ok: true, kind, row: storedRow<QuoteRow>(row.result), replayed: true };
}

/** The text is our own `json_object` of the very columns that the row type lists. */
function storedRow<Row>(text: string): Row {
  return JSON.parse(text) as Row;
}
