/** Audit events without the change that they record. */
import { env } from "cloudflare:workers";
import { auditRow } from "../../src/audit/audit.ts";
import { detailsOf } from "../../src/audit/event-details.ts";
import { NOW } from "../../src/platform/commit.ts";
import { all, TRUE } from "../../src/platform/sql.ts";
import { settings } from "./http.ts";

/** A genuine event, because other tests verify the log of the same database. */
export async function insertEvent(
  kind: "account_frozen" | "sessions_ended",
  userId: string,
): Promise<void> {
  const details = detailsOf(settings(), kind, {});
  const about = { userId, apiKeyId: null, ip: null, subjectId: null };
  await all(env.DB, auditRow({ kind, actor: "operator:test", ...about, details }, NOW, TRUE));
}
