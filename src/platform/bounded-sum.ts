/** Sums of amounts that stop at 2^62, because an overflow would refuse the whole batch. */
import { raw, type Sql, MAX_NATIVE } from "./sql.ts";

const MAX_SUM = MAX_NATIVE.text;

/** Over the rows of a group. In two halves, because `sum` throws if it overflows. */
export function boundedSum(column: string): Sql {
  const [high, low] = [`sum(${column} >> 32)`, `sum(${column} & 4294967295)`];
  return raw(`iif(${high} + (${low} >> 32) >= 1073741824, ${MAX_SUM}, (${high} << 32) + ${low})`);
}

/** The assignment of an upsert that adds the new row's sum to that of `table`. */
export function addBounded(table: string, column: string): Sql {
  return raw(`${column} = min(${table}.${column} + excluded.${column}, ${MAX_SUM})`);
}
