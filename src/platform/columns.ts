/** Types of the columns in `src/<domain>/tables.ts`. A test compares those with migrations/. */
import { sql } from "drizzle-orm";
import { customType } from "drizzle-orm/sqlite-core";
import { readUuid } from "./sql.ts";

/** A UUID as 16 bytes, because text would take 36. D1 returns a BLOB as the array of its bytes. */
export const uuidColumn = customType<{ data: string; driverData: readonly number[] }>({
  dataType: () => "blob",
  toDriver: (id) => sql`unhex(${id},'-')`,
  fromDriver: (bytes) => readUuid(Buffer.from(bytes).toString("hex")),
});
