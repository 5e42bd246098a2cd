/** The audit log as drizzle reads it. migrations/ explains the tables; a test compares the two. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { hex, uuid } from "../platform/columns.ts";

export const auditEvents = sqliteTable("audit_events", {
  auditSeq: integer("audit_seq").primaryKey(),
  auditEventId: uuid("audit_event_id").notNull().unique(),
  kind: text("kind").notNull(),
  actor: text("actor").notNull(),
  userId: uuid("user_id"),
  apiKeyId: uuid("api_key_id"),
  ip: text("ip"),
  subjectId: text("subject_id"),
  details: text("details"),
  mac: text("mac"),
  at: integer("at").notNull(),
});

export const auditSeals = sqliteTable("audit_seals", {
  auditSeq: integer("audit_seq").primaryKey(),
  hash: hex("hash").notNull(),
  keyId: text("key_id"),
  signature: text("signature"),
  sealedAt: integer("sealed_at").notNull(),
});
