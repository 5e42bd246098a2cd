/** The table of the operators that the query builder reads. migrations/ explains it. */
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { uuid } from "../platform/columns.ts";

export const operatorProposals = sqliteTable("operator_proposals", {
  proposalId: uuid("proposal_id").primaryKey(),
  operator: text("operator").notNull(),
  content: text("content").notNull(),
  status: text("status").notNull(),
  decidedBy: text("decided_by"),
  seal: text("seal").notNull(),
  masterKeyId: text("master_key_id").notNull(),
  at: integer("at").notNull(),
});
