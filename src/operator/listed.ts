/** What lists of all users have in common: conditions, and whose a row is. */
import { uuidTextOf } from "../audit/audit.ts";
import { type Expr, expr, join, raw, type RowOf, type Typed, uuid } from "../platform/sql.ts";
import { parseTimestamp } from "../http/fields.ts";
import { now } from "../platform/time.ts";
import { idsFrom } from "../platform/uuid.ts";
import { badOption, idOption, limitOption, type OperatorContext, optional } from "./context.ts";
import { userOf } from "./users.ts";

/** The result of a list. `next` is the `--cursor` of the next page, null after the last. */
export class Listed {
  readonly rows: readonly unknown[];
  readonly next: string | null;
  constructor(rows: readonly unknown[], next: string | null) {
    this.rows = rows;
    this.next = next;
  }
}

/** A full page has a next one, which may be empty, after the position of its last row. */
export function listedPage<Row>(
  context: OperatorContext,
  rows: readonly Row[],
  position: (row: Row) => string | number,
  view: (row: Row) => unknown = (row) => row,
): Listed {
  const last = rows[limitOption(context) - 1];
  return new Listed(rows.map(view), last === undefined ? null : String(position(last)));
}

const UNIT_MS: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 };

/** The user of `--email` or `--user-id`, if one is given. */
export async function userOption(context: OperatorContext): Promise<string | undefined> {
  const { email, "user-id": id } = context.options;
  return email === undefined && id === undefined ? undefined : userOf(context);
}

/** Condition of a list that is sorted by a column of ids, newest first. It is trusted. */
function beforeCursor(context: OperatorContext, column: string): Expr[] {
  if (context.options["cursor"] === undefined) return [];
  return [expr`${raw(column)} < ${uuid(idOption(context, "cursor"))}`];
}

/**
 * Conditions of `--email`, `--user-id`, `--since` and `--cursor`, as far as given. Columns are
 * trusted.
 */
export async function ofUserSince(
  context: OperatorContext,
  columns: { readonly id: string; readonly users: readonly string[] },
): Promise<Expr[]> {
  const userId = await userOption(context);
  const since = sinceOption(context);
  const conditions = beforeCursor(context, columns.id);
  if (userId !== undefined) {
    const is = columns.users.map((column) => expr`${raw(column)} = ${uuid(userId)}`);
    conditions.push(expr`${join(is, " OR ")}`);
  }
  if (since !== undefined) conditions.push(expr`${raw(columns.id)} >= ${idsFrom(expr`${since}`)}`);
  return conditions;
}

/** Unix milliseconds of `--since`: an instant, or a time back from now such as `90m`, `6h`, `2d`. */
export function sinceOption(context: OperatorContext): number | undefined {
  const text = optional(context, "since");
  if (text === undefined) return undefined;
  const [, count, unit] = /^(\d{1,4})([mhd])$/.exec(text) ?? [];
  if (count !== undefined && unit !== undefined)
    return now() - Number(count) * (UNIT_MS[unit] ?? 0);
  const at = parseTimestamp(text);
  if (at === undefined) throw badOption("since", "must be RFC 3339, or like 90m, 6h or 2d");
  return at;
}

/** The email of the user whose id the column has. It is trusted. */
export function emailOf(column: string): Typed<string | null> {
  return expr`SELECT u.email FROM users u WHERE u.user_id = ${raw(column)}`;
}

/** The owner of a row, by a trusted column. A house account has no email. */
export function ownedBy(column: string) {
  return { owner: uuidTextOf(column), email: emailOf(column) };
}
export type Owned = RowOf<ReturnType<typeof ownedBy>>;
