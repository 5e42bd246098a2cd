/** `restore`: what a restored database does not contain, of chains, journal and audit log. */
import { sealerOf } from "../archive/watch-sealer.ts";
import { hasLostEvents, openEpoch } from "../audit/epoch.ts";
import { acceptPayment } from "../custody/accept-payment.ts";
import type { RestoreReport } from "../custody/payer/restore-payments.ts";
import { ACCEPTED_AS } from "../custody/column-values.ts";
import { skipTransfers } from "../ledger/skip-transfers.ts";
import { errorFields, log } from "../platform/log.ts";
import { near } from "../platform/near.ts";
import { batch, expr, first, holds, listed, sql, TRUE } from "../platform/sql.ts";
import { SEQUENCE_JUMP, skipEvents } from "../streams/trim-streams.ts";
import { recordCommand } from "./audit-commands.ts";
import {
  actorOf,
  badOption,
  flag,
  oneOfOption,
  type OperatorContext,
  option,
  optional,
  textOption,
} from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

/** Pages of lost payments that one `restore` rebuilds, 10 000 payments. That takes minutes. */
const RESTORE_PAGES = 40;

/**
 * Rebuilds what a restored database does not contain, from each chain and from the payer's recovery
 * records. The payer continues automatically once nothing is unresolved. A restored database halts
 * the payer, so if nothing is halted, `--yes` must confirm that the database was restored.
 */
export async function restore(context: OperatorContext): Promise<unknown> {
  if (optional(context, "accept-payment") !== undefined) return accept(context);
  if (!flag(context, "yes") && !(await anyHalted(context))) {
    throw new OperatorRejection(
      "nothing_halted",
      "Neither a payer, a chain nor the sealer is halted, so the database does not look restored. " +
        "The payer halts when it detects an older database (see chain status). " +
        "To restore anyway, add --yes.",
    );
  }
  await recordCommand(context, "restored", null);
  const journal = await restoreJournal(context.env, flag(context, "yes"));
  const audit = await restoreAudit(context, flag(context, "yes") || journal !== undefined);
  const restoreChain = async (chain: string) => {
    // Restore addresses first, because their deposits fund the withdrawals that are rebuilt.
    const addresses = await near(context.env, context.env.CHAIN_WATCHER, chain).restore(chain);
    const { paying, ...payments } = await restorePayments(context, chain);
    await near(context.env, context.env.PAYER, chain).wake(chain);
    const again = addresses.unread_above !== null || payments.remaining > 0;
    return {
      ok: addresses.unread_above === null && paying,
      addresses,
      ...payments,
      ...(again ? { note: "Not everything was read. Run restore again." } : {}),
    };
  };
  const names = context.settings.CHAINS.map(({ chain }) => chain);
  const reports = await Promise.all(names.map(restoreChain));
  return {
    ok: reports.every(({ ok }) => ok) && audit?.ok !== false,
    ...(journal === undefined ? {} : { journal }),
    ...(audit === undefined ? {} : { audit }),
    chains: Object.fromEntries(names.map((name, index) => [name, reports[index]])),
  };
}

/** `restore --accept-payment`. It books the payment; `chain resume` lets the payer continue. */
async function accept(context: OperatorContext): Promise<unknown> {
  const paymentId = option(context, "accept-payment").toLowerCase();
  if (!/^0x[0-9a-f]{64}$/.test(paymentId))
    throw badOption("accept-payment", "must be a payment id, 0x and 64 hexadecimal digits");
  const kind = oneOfOption(context, "as", ACCEPTED_AS);
  if (kind === undefined) throw badOption("as", "is required with --accept-payment");
  const reason = textOption(context, "reason");
  const acceptance = { paymentId, kind, reason, actor: actorOf(context) };
  const accepted = await acceptPayment(context.env.DB, context.settings, acceptance);
  if ("chain" in accepted) return { payment_id: paymentId, as: kind, ...accepted };
  throw new OperatorRejection("payment_not_acceptable", NOT_ACCEPTABLE[accepted.status]);
}

const NOT_ACCEPTABLE = {
  not_paid: "No payment of that id was read from the vault.",
  has_withdrawal: "The payment belongs to a withdrawal. If its terms differ, run withdrawals fail.",
  unknown_asset: "The service does not credit that token, so it lost nothing. Use --as rescue.",
  too_large:
    "The ledger holds at most 2^62 units of an asset, and losses of it would exceed that. Use --as " +
    "rescue, which posts nothing. Then run reconcile: holdings_short is what users have lost of it.",
} as const;

/** Rebuilds lost payments page by page, as far as one command goes. */
async function restorePayments(context: OperatorContext, chain: string) {
  const payer = near(context.env, context.env.PAYER, chain);
  const unresolved: RestoreReport["unresolved"][number][] = [];
  let rebuilt = 0;
  let after = 0;
  for (let pages = 1; ; pages++) {
    const { next, ...page } = await payer.restore(chain, after);
    rebuilt += page.rebuilt;
    unresolved.push(...page.unresolved);
    if (next === null || pages === RESTORE_PAGES) return { ...page, rebuilt, unresolved };
    after = next;
  }
}

async function anyHalted(context: OperatorContext): Promise<boolean> {
  const names = listed(context.settings.CHAINS.map(({ chain }) => chain));
  const halted = await first(
    context.env.DB,
    sql`SELECT 1 FROM (SELECT chain, halted_at FROM payer_leases
        UNION ALL SELECT chain, halted_at FROM chain_cursors)
      WHERE halted_at IS NOT NULL AND chain IN (${names})`,
  );
  if (halted !== undefined) return true;
  return (await isSealerHalted(context.env)) || isAuditBehind(context);
}

/** The database lacks what the sealer remembers, or the archive contradicts the database. */
export async function isSealerHalted(env: Env): Promise<boolean> {
  if ((await sealerOf(env).lost()) !== null) return true;
  return holds(
    env.DB,
    expr`EXISTS (SELECT 1 FROM alerts WHERE kind = 'seal_mismatch' AND resolved_at IS NULL)`,
  );
}

/**
 * Lets the sealer continue in a new epoch, above every transfer that it has seen. Undefined if it
 * is not halted and the operator does not insist: the sealer does not notice the loss of what was
 * posted after its last round.
 */
export async function restoreJournal(
  env: Env,
  insists: boolean,
): Promise<{ epoch: number; sealed: number } | undefined> {
  if (!insists && !(await isSealerHalted(env))) return undefined;
  const sealer = sealerOf(env);
  // The sealer has not seen what was posted after its last round, and events are in no seal.
  const skipped = (await sealer.highestTransfer()) + SEQUENCE_JUMP;
  const statements = [...skipTransfers(skipped), ...skipEvents(TRUE)];
  // First, so that a failure in between leaves the sealer halted.
  await batch(env.DB, statements);
  return sealer.reopen();
}

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
export async function restoreAudit(context: OperatorContext, insists: boolean) {
  const { env, settings } = context;
  const actor = actorOf(context);
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
