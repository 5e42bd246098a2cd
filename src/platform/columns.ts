/**
 * Column types of the drizzle tables in `src/<domain>/tables.ts`. A table declares the columns that
 * TypeScript reads. migrations/ has the rest of it, and a test compares the two.
 */
import { sql } from "drizzle-orm";
import { customType } from "drizzle-orm/sqlite-core";
import { readUuid } from "./sql.ts";

/** D1 returns a BLOB as the array of its bytes. */
type Blob = readonly number[];

const hexOf = (bytes: Blob) => Buffer.from(bytes).toString("hex");

/** A UUID, stored as 16 bytes, because text would take 36 bytes in the row and in each index. */
export const uuid = customType<{ data: string; driverData: Blob }>({
  dataType: () => "blob",
  toDriver: (id) => sql`unhex(${id},'-')`,
  fromDriver: (bytes) => readUuid(hexOf(bytes)),
});

/** A hash as lower-case hexadecimal, stored as bytes. */
export const hex = customType<{ data: string; driverData: Blob }>({
  dataType: () => "blob",
  fromDriver: hexOf,
});

/** As `hex`, with `0x`. */
export const hash = customType<{ data: string; driverData: Blob }>({
  dataType: () => "blob",
  fromDriver: (bytes) => `0x${hexOf(bytes)}`,
});
