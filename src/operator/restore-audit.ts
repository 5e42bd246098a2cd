/** The part of `restore` that concerns the audit log, whose heads in R2 no restore touches. */
import { hasLostEvents, openEpoch } from "../audit/epoch.ts";
import { errorFields, log } from "../platform/log.ts";
import type { OperatorContext } from "./context.ts";

/** R2 has heads of events that the database has lost. False also if it cannot be read. */
export async function isAuditBehind({ env, settings }: OperatorContext): Promise<boolean> {
  try {
    return await hasLostEvents(env.DB, env.AUDIT, settings);
  } catch (error) {
    log("warn", "audit_anchor_failed", errorFields(error));
    return false;
  }
}

/**
 * Opens an epoch of the audit log, so that no lost number is used again and `audit verify` can tell
 * the loss from a forgery. A failure stops nothing else, because funds come first.
 */
export async function restoreAudit({ env, settings, operator }: OperatorContext, insists: boolean) {
  const actor = `operator:${operator}` as const;
  try {
    const opened = await openEpoch(env.DB, env.AUDIT, settings, { actor, insists });
    if (opened === undefined) return undefined;
    const { epoch, seq, keptUntil, lostUntil } = opened;
    return { ok: true, epoch, audit_seq: seq, kept_until: keptUntil, lost_until: lostUntil };
  } catch (error) {
    log("error", "audit_epoch_failed", errorFields(error));
    const reason = error instanceof Error ? error.message : "unknown";
    return {
      ok: false,
      note: `The audit log has no new epoch: ${reason}. Run restore again.`,
    };
  }
}
