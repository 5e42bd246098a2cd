/** Audit events without the change that they record. */
import { env } from "cloudflare:workers";
import { auditRow } from "../../src/audit/audit.ts";
import { NOW } from "../../src/platform/commit.ts";
import { all, TRUE } from "../../src/platform/sql.ts";

export async function insertEvent(
  kind: "account_frozen" | "sessions_ended",
  userId: string,
): Promise<void> {
  const about = { userId, apiKeyId: null, ip: null, subjectId: null };
  await all(env.DB, auditRow({ kind, actor: "operator:test", ...about }, NOW, TRUE));
}
