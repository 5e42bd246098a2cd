import { type Expr, expr, type Sql, sql } from "./sql.ts";
import { now } from "./time.ts";

/** A UUID v7 (RFC 9562): 48 bits of Unix milliseconds, then random bits. Ids sort by time. */
export function uuidv7(at: number = now()): string {
  const time = Math.floor(at).toString(16).padStart(12, "0");
  // The version digit of a random UUID is replaced. Its variant is that of all versions.
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`;
}

/**
 * The id of a record that others see. It has whole seconds, because D1 stamps the record: the
 * milliseconds between the two would tell through which Worker it was sent.
 */
export function publicId(): string {
  return uuidv7(Math.floor(now() / 1_000) * 1_000);
}

/** The Unix milliseconds that a UUID v7 contains. */
export function instantOf(id: string): number {
  return Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
}

/** SQL for a BLOB below the ids that are made at this instant or later, and above earlier ones. */
export function idsFrom(at: Expr): Expr {
  return expr`unhex(printf('%012x', ${at}))`;
}

/** SQL for a UUID v7 as a BLOB, for statements whose number of rows is known only to D1. */
export function uuidv7Sql(at: Sql): Sql {
  return sql`unhex(printf('%012x', ${at}) || '7' || substr(hex(randomblob(2)), 2)
    || '8' || substr(hex(randomblob(2)), 2) || hex(randomblob(6)))`;
}
