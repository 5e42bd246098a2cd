/** The table of auth that the query builder reads. migrations/ has and explains all of them. */
import { customType, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Scope } from "../platform/actor.ts";
import { uuid } from "../platform/columns.ts";
import { type KeyLimits, readLimits } from "./key-limits.ts";
import { readScopes } from "./scope.ts";

/** Such as `read,trade`. Unknown words are ignored. */
const scopes = customType<{ data: readonly Scope[]; driverData: string }>({
  dataType: () => "text",
  fromDriver: readScopes,
});

/** Parses a JSON array of addresses. Text that is not an array allows no address. */
export function readAddresses(stored: string): readonly string[] {
  const list: unknown = JSON.parse(stored);
  return Array.isArray(list) ? list.filter((item) => typeof item === "string") : [];
}

const addresses = customType<{ data: readonly string[]; driverData: string }>({
  dataType: () => "text",
  fromDriver: readAddresses,
});

const keyLimits = customType<{ data: KeyLimits; driverData: string }>({
  dataType: () => "text",
  fromDriver: readLimits,
});

export const apiKeys = sqliteTable("api_keys", {
  apiKeyId: uuid("api_key_id").primaryKey(),
  userId: uuid("user_id").notNull(),
  label: text("label").notNull(),
  scopes: scopes("scopes").notNull(),
  secretSealed: text("secret_sealed").notNull(),
  masterKeyId: text("master_key_id").notNull(),
  allowedIps: addresses("allowed_ips"),
  limits: keyLimits("limits"),
  requireIdempotency: integer("require_idempotency", { mode: "boolean" }).notNull(),
  mintedBy: text("minted_by", { enum: ["session", "operator"] }).notNull(),
  activeFrom: integer("active_from"),
  approvedAt: integer("approved_at"),
  createdAt: integer("created_at").notNull(),
  expiresAt: integer("expires_at"),
  lastUsedAt: integer("last_used_at"),
  revokedAt: integer("revoked_at"),
  networks: text("networks"),
});

/** Why an endpoint gets nothing any more. */
export const WEBHOOK_ENDS = ["gone", "late", "full", "events_gone", "revoked"] as const;
