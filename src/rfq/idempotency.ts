/** Idempotency keys: key, terms and answer are written in the batch of the effect, as part of its gate. */
import type { Group } from "../platform/commit.ts";
import { NOW } from "../platform/commit.ts";
import { first, type Sql, sql, uuid } from "../platform/sql.ts";
import { type Answer, type Idempotency, refused } from "./command.ts";
import type { QuoteRow, RequestRow } from "./records.ts";

const KEY_LIFE_MS = 24 * 3_600_000;

/** Condition for a gate: the user has not used this key on this route in the last 24 hours. */
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

/** Statements that keep the answer, if the gate before them fired: `answer` selects nothing otherwise. */
export function rememberAnswer(memory: {
  readonly group: Group;
  readonly userId: string;
  readonly route: string;
  readonly idempotency: Idempotency | undefined;
  readonly answer: Sql;
}): Sql[] {
  const { group, userId, route, idempotency, answer } = memory;
  if (idempotency === undefined) return [];
  return [
    sql`DELETE FROM idempotency_keys WHERE user_id = ${uuid(userId)} AND route = ${route} AND key = ${idempotency.key}
      AND at <= ${group.at} - ${KEY_LIFE_MS}`,
    sql`INSERT INTO idempotency_keys (user_id, route, key, terms, answer, at)
      SELECT ${uuid(userId)}, ${route}, ${idempotency.key}, ${idempotency.terms}, a.answer, ${group.at} FROM (${answer}) a`,
  ];
}

/** The earlier answer to the same key; a refusal when its terms were others; undefined when the key is free. */
export async function recallAnswer(
  db: D1Database,
  memory: {
    readonly userId: string;
    readonly route: string;
    readonly kind: "request" | "quote";
    readonly idempotency: Idempotency | undefined;
  },
): Promise<Answer | undefined> {
  const { userId, route, kind, idempotency } = memory;
  if (idempotency === undefined) return undefined;
  const row = await first<{ terms: string; answer: string }>(
    db,
    sql`SELECT terms, answer FROM idempotency_keys WHERE user_id = ${uuid(userId)} AND route = ${route}
      AND key = ${idempotency.key} AND at > ${NOW} - ${KEY_LIFE_MS}`,
  );
  if (row === undefined) return undefined;
  if (row.terms !== idempotency.terms) {
    return refused("idempotency_key_reused", "This idempotency key was used with another body.");
  }
  return kind === "request"
    ? { ok: true, kind, row: storedRow<RequestRow>(row.answer), replayed: true }
    : { ok: true, kind, row: storedRow<QuoteRow>(row.answer), replayed: true };
}

/** The text is our own `json_object` of the very columns that the row type lists. */
function storedRow<Row>(text: string): Row {
  return JSON.parse(text) as Row;
}
