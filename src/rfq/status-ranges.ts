/** Lists by status. Each status is a range of an index, read as far as needed and merged. */
import { NOW } from "../platform/commit.ts";
import { join, raw, type Sql, sql } from "../platform/sql.ts";

export type Listing<Status extends string> = {
  /** The alias of the table in `from`. */
  readonly table: "q" | "r";
  readonly statuses: readonly Status[];
  readonly columns: Sql;
  readonly from: Sql;
  readonly where: Sql;
  /** Column names, which are also names of `columns`. */
  readonly order: Sql;
  readonly limit: number;
};

/** Reads show an open record past its time as expired, so the filter `expired` is two ranges. */
export function inStatuses<Status extends string>(
  status: Status | undefined,
  { table, statuses, columns, from, where, order, limit }: Listing<Status>,
): Sql {
  const [its, due] = [raw(`${table}.status`), raw(`+${table}.expires_at`)];
  const rows = (condition: Sql) =>
    sql`SELECT ${columns} FROM ${from} WHERE ${where} AND ${condition}
      ORDER BY ${qualified(table, order)} LIMIT ${limit}`;
  if (status === "open") return rows(sql`${its} = 'open' AND ${due} > ${NOW}`);
  if (status !== "expired" && status !== undefined) return rows(sql`${its} = ${status}`);
  // D1 accepts at most five terms, which is the number of statuses of a quote.
  const ranges =
    status === undefined
      ? statuses.map((one) => rows(sql`${its} = ${one}`))
      : [rows(sql`${its} = 'expired'`), rows(sql`${its} = 'open' AND ${due} <= ${NOW}`)];
  const merged = ranges.map((range) => sql`SELECT * FROM (${range})`);
  return sql`SELECT * FROM (${join(merged, " UNION ALL ")}) ORDER BY ${order} LIMIT ${limit}`;
}

/** The output names are also column names, but the output of an id is hex. */
function qualified(table: "q" | "r", order: Sql): Sql {
  return raw(
    order.text
      .split(", ")
      .map((part) => `${table}.${part}`)
      .join(", "),
  );
}
