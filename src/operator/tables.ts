import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { uuid } from "../platform/columns.ts";

export const operatorProposals = sqliteTable("operator_proposals", {
  proposalId: uuid("proposal_id").notNull(),
  operator: text("operator").notNull(),
  content: text("content").notNull(),
  status: text("status").notNull(),
  decidedBy: text("decided_by"),
  sealed: text("seal").notNull(),
  masterKeyId: text("master_key_id").notNull(),
  at: integer("at").notNull(),
});

/** The one row that GET /status and GET /metrics read. `body` is JSON. */
export const serviceLevels = sqliteTable("service_levels", {
  at: integer("at").notNull(),
  body: text("body").notNull(),
});
