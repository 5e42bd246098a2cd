import { customType } from "drizzle-orm/sqlite-core";

/**
 * A UUID or a hash as raw bytes. Text would take 36 or 66 bytes instead of 16 or 32, in the row and
 * again in each index.
 */
export const bytes = customType<{ data: Uint8Array; driverData: Uint8Array }>({
  dataType: () => "blob",
});
