import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { hash, uuid } from "../platform/columns.ts";

export const auditEvents = sqliteTable("audit_events", {
  seq: integer("audit_seq").notNull(),
  id: uuid("audit_event_id").notNull(),
  kind: text("kind").notNull(),
  actor: text("actor").notNull(),
  userId: uuid("user_id"),
  apiKeyId: uuid("api_key_id"),
  ip: text("ip"),
  subjectId: text("subject_id"),
  details: text("details"),
  mac: text("mac"),
  /** Unix milliseconds. */
  at: integer("at").notNull(),
});

/** The link of each event. The last one of each sealing has a signature. */
export const auditSeals = sqliteTable("audit_seals", {
  seq: integer("audit_seq").notNull(),
  hash: hash("hash").notNull(),
  keyId: text("key_id"),
  signature: text("signature"),
  /** Unix milliseconds. */
  sealedAt: integer("sealed_at").notNull(),
});
