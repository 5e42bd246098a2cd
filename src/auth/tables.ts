/** Tables of auth. migrations/ explains them; a test compares the two. */
import { sql } from "drizzle-orm";
import {
  check,
  customType,
  index,
  integer,
  primaryKey,
  sqliteTable,
  text,
} from "drizzle-orm/sqlite-core";
import type { Scope } from "../platform/actor.ts";
import { hex, oneOf, uuid } from "../platform/columns.ts";
import { type KeyLimits, readLimits, writeLimits } from "./key-limits.ts";
import { readScopes, writeScopes } from "./scope.ts";

/** Such as `read,trade`. Unknown words are ignored. */
const scopes = customType<{ data: readonly Scope[]; driverData: string }>({
  dataType: () => "text",
  toDriver: writeScopes,
  fromDriver: readScopes,
});

/** Parses a JSON array of addresses. Text that is not an array allows no address. */
export function readAddresses(stored: string): readonly string[] {
  const list: unknown = JSON.parse(stored);
  return Array.isArray(list) ? list.filter((item) => typeof item === "string") : [];
}

const addresses = customType<{ data: readonly string[]; driverData: string }>({
  dataType: () => "text",
  toDriver: (list) => JSON.stringify(list),
  fromDriver: readAddresses,
});

const keyLimits = customType<{ data: KeyLimits; driverData: string }>({
  dataType: () => "text",
  toDriver: writeLimits,
  fromDriver: readLimits,
});

export const users = sqliteTable("users", {
  userId: uuid("user_id").primaryKey(),
  email: text("email").notNull().unique(),
  passwordHash: text("password_hash").notNull(),
  sessionEpoch: integer("session_epoch").notNull(),
  frozenAt: integer("frozen_at"),
  frozenBy: text("frozen_by", { enum: ["self", "operator"] }),
  holdUntil: integer("hold_until"),
  createdAt: integer("created_at").notNull(),
});

export const apiKeys = sqliteTable(
  "api_keys",
  {
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
  },
  (t) => [
    index("api_keys_user").on(t.userId, t.createdAt),
    index("api_keys_live")
      .on(t.userId)
      .where(sql`revoked_at IS NULL`),
    index("api_keys_waiting")
      .on(t.createdAt)
      .where(sql`active_from IS NULL`),
    index("api_keys_revoked")
      .on(t.revokedAt)
      .where(sql`revoked_at IS NOT NULL`),
    index("api_keys_expiry")
      .on(t.expiresAt)
      .where(sql`expires_at IS NOT NULL`),
    check("api_keys_require_idempotency", sql`require_idempotency IN (0, 1)`),
  ],
);

export const accountPolicies = sqliteTable(
  "account_policies",
  {
    userId: uuid("user_id").notNull(),
    activeFrom: integer("active_from").notNull(),
    version: integer("version").notNull(),
    sessionsTrade: integer("sessions_trade", { mode: "boolean" }).notNull(),
    maxTradeUsdcPerDay: integer("max_trade_usdc_per_day"),
    withdrawMaxUsdcPerDay: integer("withdraw_max_usdc_per_day"),
    withdrawListedOnly: integer("withdraw_listed_only", { mode: "boolean" }).notNull(),
    withdrawApprovalAbove: integer("withdraw_approval_above"),
  },
  (t) => [
    primaryKey({ columns: [t.userId, t.activeFrom] }),
    check("account_policies_sessions_trade", sql`sessions_trade IN (0, 1)`),
    check("account_policies_listed_only", sql`withdraw_listed_only IN (0, 1)`),
  ],
);

export const wsTickets = sqliteTable(
  "ws_tickets",
  {
    ticketHash: hex("ticket_hash").primaryKey(),
    userId: uuid("user_id").notNull(),
    apiKeyId: uuid("api_key_id"),
    sessionEpoch: integer("session_epoch"),
    sessionExpiresAt: integer("session_expires_at"),
    scopes: scopes("scopes").notNull(),
    expiresAt: integer("expires_at").notNull(),
    usedAt: integer("used_at"),
  },
  (t) => [index("ws_tickets_expiry").on(t.expiresAt)],
);

export const openedStreams = sqliteTable(
  "opened_streams",
  {
    userId: uuid("user_id").notNull(),
    opener: uuid("opener").notNull(),
    stream: text("stream").notNull(),
    openedAt: integer("opened_at").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.userId, t.opener, t.stream] }),
    index("opened_streams_age").on(t.openedAt),
  ],
);

export const loginAttempts = sqliteTable(
  "login_attempts",
  {
    attemptId: uuid("attempt_id").primaryKey(),
    emailHash: hex("email_hash").notNull(),
    network: text("network").notNull(),
    at: integer("at").notNull(),
    succeeded: integer("succeeded", { mode: "boolean" }).notNull(),
  },
  (t) => [
    index("login_attempts_email").on(t.emailHash, t.network, t.at),
    index("login_attempts_network").on(t.network, t.at),
    index("login_attempts_age").on(t.at),
  ],
);

export const loginNetworks = sqliteTable(
  "login_networks",
  {
    userId: uuid("user_id").notNull(),
    network: text("network").notNull(),
    at: integer("at").notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.userId, t.network] }),
    index("login_networks_network").on(t.network, t.at),
  ],
);

export const emailChanges = sqliteTable("email_changes", {
  userId: uuid("user_id").primaryKey(),
  auditEventId: uuid("audit_event_id").notNull(),
  email: text("email").notNull().unique("email_changes_email"),
  passwordHash: text("password_hash").notNull(),
  activeFrom: integer("active_from").notNull(),
});

export const totpSecrets = sqliteTable(
  "totp_secrets",
  {
    userId: uuid("user_id").notNull(),
    status: text("status", { enum: ["pending", "confirmed"] }).notNull(),
    secretSealed: text("secret_sealed").notNull(),
    masterKeyId: text("master_key_id").notNull(),
    lastStep: integer("last_step").notNull(),
    wrongCodes: integer("wrong_codes").notNull(),
    createdAt: integer("created_at").notNull(),
    endsAt: integer("ends_at"),
    nextSealed: text("next_sealed"),
    nextMasterKeyId: text("next_master_key_id"),
    nextFrom: integer("next_from"),
    recovered: integer("recovered"),
  },
  (t) => [
    primaryKey({ columns: [t.userId, t.status] }),
    index("totp_secrets_end")
      .on(t.endsAt)
      .where(sql`ends_at IS NOT NULL`),
    check("totp_secrets_status", oneOf("status", ["pending", "confirmed"])),
  ],
);

export const recoveryCodes = sqliteTable(
  "recovery_codes",
  {
    userId: uuid("user_id").notNull(),
    codeHash: hex("code_hash").notNull(),
    activeFrom: integer("active_from"),
    endsAt: integer("ends_at"),
  },
  (t) => [primaryKey({ columns: [t.userId, t.codeHash] })],
);

export const totpAttempts = sqliteTable(
  "totp_attempts",
  {
    attemptId: uuid("attempt_id").primaryKey(),
    userId: uuid("user_id").notNull(),
    network: text("network").notNull(),
    at: integer("at").notNull(),
  },
  (t) => [index("totp_attempts_user").on(t.userId, t.at), index("totp_attempts_age").on(t.at)],
);

/** Why an endpoint gets nothing any more. */
export const WEBHOOK_ENDS = ["gone", "late", "full", "events_gone", "revoked"] as const;

export const webhookEndpoints = sqliteTable(
  "webhook_endpoints",
  {
    endpointId: uuid("endpoint_id").primaryKey(),
    userId: uuid("user_id").notNull(),
    url: text("url").notNull(),
    types: text("types").notNull(),
    secretsSealed: text("secrets_sealed").notNull(),
    masterKeyId: text("master_key_id").notNull(),
    afterSeq: integer("after_seq").notNull(),
    createdAt: integer("created_at").notNull(),
    disabledAt: integer("disabled_at"),
    disabledReason: text("disabled_reason", { enum: WEBHOOK_ENDS }),
    disabledSeq: integer("disabled_seq"),
  },
  (t) => [
    index("webhook_endpoints_user").on(t.userId),
    check("webhook_endpoints_reason", oneOf("disabled_reason", WEBHOOK_ENDS)),
  ],
);
