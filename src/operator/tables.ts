/** The operators' tables, for the types of their rows. migrations/ explains them. */
import { check, index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { hex, oneOf, uuid } from "../platform/columns.ts";

export const operatorOrders = sqliteTable(
  "operator_orders",
  {
    orderId: uuid("order_id").primaryKey(),
    operator: text("operator").notNull(),
    sha256: hex("sha256").notNull(),
    auditEventId: uuid("audit_event_id").notNull(),
    answer: text("answer"),
    masterKeyId: text("master_key_id"),
    at: integer("at").notNull(),
  },
  (t) => [index("operator_orders_age").on(t.at)],
);

export const operatorProposals = sqliteTable(
  "operator_proposals",
  {
    proposalId: uuid("proposal_id").primaryKey(),
    operator: text("operator").notNull(),
    content: text("content").notNull(),
    status: text("status").notNull(),
    decidedBy: text("decided_by"),
    seal: text("seal").notNull(),
    masterKeyId: text("master_key_id").notNull(),
    at: integer("at").notNull(),
  },
  (t) => [
    index("operator_proposals_age").on(t.at),
    check("operator_proposals_status", oneOf("status", ["open", "approved", "rejected"])),
  ],
);
