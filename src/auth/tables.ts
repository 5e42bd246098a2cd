import { sql } from "drizzle-orm";
import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { bytes } from "../platform/columns.ts";

export const users = sqliteTable("users", {
  userId: bytes("user_id").primaryKey(),
  email: text("email").notNull().unique(),
  passwordHash: text("password_hash").notNull(),
  /** Session tokens contain the epoch in which they were issued. Raising it ends all sessions. */
  sessionEpoch: integer("session_epoch").notNull(),
  frozenAt: integer("frozen_at"),
  createdAt: integer("created_at").notNull(),
});

export const apiKeys = sqliteTable(
  "api_keys",
  {
    apiKeyId: bytes("api_key_id").primaryKey(),
    userId: bytes("user_id").notNull(),
    label: text("label").notNull(),
    scopes: text("scopes").notNull(),
    secretSealed: text("secret_sealed").notNull(),
    masterKeyId: text("master_key_id").notNull(),
    allowedIps: text("allowed_ips"),
    mintedBy: text("minted_by").notNull(),
    /** An operator's key has no scopes before this instant. */
    activeFrom: integer("active_from").notNull(),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at"),
    lastUsedAt: integer("last_used_at"),
    revokedAt: integer("revoked_at"),
  },
  (t) => [index("api_keys_user").on(t.userId, t.createdAt)],
);

export const wsTickets = sqliteTable(
  "ws_tickets",
  {
    ticketHash: bytes("ticket_hash").primaryKey(),
    userId: bytes("user_id").notNull(),
    apiKeyId: bytes("api_key_id"),
    sessionEpoch: integer("session_epoch"),
    sessionExpiresAt: integer("session_expires_at"),
    scopes: text("scopes").notNull(),
    expiresAt: integer("expires_at").notNull(),
    usedAt: integer("used_at"),
    /** The stream that the ticket opened. A revocation closes the key's sockets there. */
    stream: text("stream"),
  },
  (t) => [
    index("ws_tickets_used")
      .on(t.userId)
      .where(sql`used_at IS NOT NULL`),
    index("ws_tickets_expiry").on(t.expiresAt),
    index("ws_tickets_unused")
      .on(t.expiresAt)
      .where(sql`used_at IS NULL`),
  ],
);

export const auditEvents = sqliteTable(
  "audit_events",
  {
    auditSeq: integer("audit_seq").primaryKey(),
    auditEventId: bytes("audit_event_id").notNull().unique(),
    kind: text("kind").notNull(),
    actor: text("actor").notNull(),
    userId: bytes("user_id"),
    apiKeyId: bytes("api_key_id"),
    ip: text("ip"),
    subjectId: text("subject_id"),
    at: integer("at").notNull(),
  },
  (t) => [
    index("audit_events_user").on(t.userId, t.auditSeq),
    index("audit_events_ended")
      .on(t.at)
      .where(sql`kind IN ('account_frozen', 'api_key_revoked', 'sessions_ended')`),
  ],
);

/** The SHA-256 chain over audit_events, one link per row. Only audit-seal.ts writes it. */
export const auditSeals = sqliteTable("audit_seals", {
  auditSeq: integer("audit_seq").primaryKey(),
  hash: bytes("hash").notNull(),
  sealedAt: integer("sealed_at").notNull(),
});

/** One row per attempt, written before the password is verified. The email is stored hashed. */
export const loginAttempts = sqliteTable(
  "login_attempts",
  {
    attemptId: bytes("attempt_id").primaryKey(),
    emailHash: bytes("email_hash").notNull(),
    network: text("network").notNull(),
    at: integer("at").notNull(),
    succeeded: integer("succeeded").notNull(),
  },
  (t) => [
    index("login_attempts_email").on(t.emailHash, t.network, t.at),
    index("login_attempts_network").on(t.network, t.at),
    index("login_attempts_age").on(t.at),
  ],
);
