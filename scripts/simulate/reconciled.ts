/** The service's own checks, at a quiet point. */
import { verifyAudit } from "../../src/audit/verify.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { config } from "../../src/platform/config.ts";
import { Violation } from "./violation.ts";

export async function checkReconciled(env: Env, full: boolean): Promise<void> {
  const settings = config(env);
  const { ok, differences } = await reconcile(env.DB, { chains: [], macKeys: settings, full });
  if (!ok) throw new Violation("reconciliation", JSON.stringify(differences));
  if (!full) return;
  const audit = await verifyAudit(env.DB, settings);
  if (audit.verdict === "forged") throw new Violation("audit_chain [A3]", JSON.stringify(audit));
}
