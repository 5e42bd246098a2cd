import { customType } from "drizzle-orm/sqlite-core";

/** A UUID or hash as raw bytes: 16 or 32 instead of 36 or 66, in the row and again in each index. */
export const bytes = customType<{ data: Uint8Array; driverData: Uint8Array }>({
  dataType: () => "blob",
});
