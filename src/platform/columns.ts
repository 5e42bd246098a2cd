/** Column types of the drizzle tables. They convert values of D1 to and from TypeScript. */
import { sql } from "drizzle-orm";
import { customType } from "drizzle-orm/sqlite-core";
import { readUuid } from "./sql.ts";

/** D1 returns a BLOB as the array of its bytes. */
type Blob = readonly number[];

/** A UUID, stored as 16 bytes, because text would take 36 bytes in the row and in each index. */
export const uuid = customType<{ data: string; driverData: Blob }>({
  dataType: () => "blob",
  toDriver: (id) => sql`unhex(${id},'-')`,
  fromDriver: (bytes) => readUuid(hexOf(bytes)),
});

/** A hash, an address or call data as lower-case hexadecimal with `0x`, stored as bytes. */
export const hex = customType<{ data: `0x${string}`; driverData: Blob }>({
  dataType: () => "blob",
  toDriver: (digits) => sql`unhex(${digits.slice(2)})`,
  fromDriver: (bytes) => `0x${hexOf(bytes)}`,
});

function hexOf(bytes: Blob): string {
  return Buffer.from(bytes).toString("hex");
}
