import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { uuidColumn } from "../platform/columns.ts";

/** API keys without their secrets. `readRights` reads the texts. */
export const apiKeys = sqliteTable("api_keys", {
  apiKeyId: uuidColumn("api_key_id").notNull(),
  userId: uuidColumn("user_id").notNull(),
  label: text("label").notNull(),
  scopes: text("scopes").notNull(),
  limits: text("limits"),
  requireIdempotency: integer("require_idempotency").notNull(),
  allowedIps: text("allowed_ips"),
  mintedBy: text("minted_by", { enum: ["session", "operator"] }).notNull(),
  activeFrom: integer("active_from"),
  approvedAt: integer("approved_at"),
  createdAt: integer("created_at").notNull(),
  expiresAt: integer("expires_at"),
  lastUsedAt: integer("last_used_at"),
  revokedAt: integer("revoked_at"),
});
