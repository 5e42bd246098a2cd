import { bytesToHex } from "@noble/hashes/utils.js";
import { type Expr, expr, readUuid, type Sql, sql } from "./sql.ts";
import { now } from "./time.ts";

/** A UUID v7 (RFC 9562): 48 bits of Unix milliseconds, then random bits. Ids sort by time. */
export function uuidv7(at: number = now()): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  view.setUint16(0, Math.floor(at / 2 ** 32));
  view.setUint32(2, at % 2 ** 32);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x70;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return readUuid(bytesToHex(bytes));
}

/** The Unix milliseconds that a UUID v7 contains. */
export function instantOf(id: string): number {
  return Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
}

/** SQL for a BLOB that is less than the ids made at this instant or later, and above earlier ones. */
export function idsFrom(at: Expr): Expr {
  return expr`unhex(printf('%012x', ${at}))`;
}

/** SQL for a UUID v7 as a BLOB, for statements whose number of rows is known only to D1. */
export function uuidv7Sql(at: Sql): Sql {
  return sql`unhex(printf('%012x', ${at}) || '7' || substr(hex(randomblob(2)), 2)
    || '8' || substr(hex(randomblob(2)), 2) || hex(randomblob(6)))`;
}
