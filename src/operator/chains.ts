import { and, inArray, isNotNull } from "drizzle-orm";
import { address as addressField } from "../assets/asset-fields.ts";
import { type AuditActor, auditRow } from "../audit/audit.ts";
import type { PlainKind } from "../audit/event-kinds.ts";
import { addressOf } from "../chain/addresses.ts";
import { readCursor } from "../chain/chain-cursor.ts";
import {
  chainStatus,
  forgetBlock,
  forgetDeposit,
  recordRescan,
  recordResume,
  resweepAddress,
} from "../custody/operator-commands.ts";
import type { RestoreReport } from "../custody/payer/restore-payments.ts";
import { acceptPayment } from "../custody/accept-payment.ts";
import { ACCEPTED_AS } from "../custody/tables.ts";
import { trackedHoldings, withSmallDeposits } from "../reconcile/tracked-holdings.ts";
import { reconcile } from "../reconcile/reconcile.ts";
import { near } from "../platform/near.ts";
import { problem } from "../platform/problem.ts";
import { sql, TRUE } from "../platform/sql.ts";
import { closeAlerts, recordCommand } from "./audit-commands.ts";
import {
  argument,
  badOption,
  fieldOption,
  flag,
  idOption,
  oneOfOption,
  type OperatorContext,
  option,
  optional,
} from "./context.ts";
import { isAuditBehind, restoreAudit } from "./restore-audit.ts";
import { isSealerHalted, restoreJournal } from "./restore-journal.ts";
import { serviceStatus } from "./service-status.ts";
import { OperatorRejection } from "./operator-rejection.ts";
import { chainCursors, payerLeases } from "../chain/tables.ts";
import { limited } from "../platform/query-limit.ts";
import { read } from "../platform/read.ts";

/** Pages of lost payments that one `restore` rebuilds, 10 000 payments. That takes minutes. */
const RESTORE_PAGES = 40;

export async function status(context: OperatorContext): Promise<unknown> {
  const [chain] = context.words;
  const name = chain === undefined ? undefined : knownChain(context, chain);
  const chains = await chainStatus(context.env.DB, context.settings, name);
  return { ...chains, ...(await serviceStatus(context)) };
}

/** Lets the watcher and the payer continue after a halt and its review. */
export async function resume(context: OperatorContext): Promise<unknown> {
  const chain = knownChain(context, argument(context, "chain"));
  const actor = `operator:${context.operator}` as const;
  await recordResume(context.env.DB, chain, actor, (at) => [
    auditRow(
      { kind: "chain_resumed", actor, userId: null, apiKeyId: null, ip: null, subjectId: chain },
      at,
      sql`1`,
    ),
  ]);
  await near(context.env, context.env.CHAIN_WATCHER, chain).wake(chain);
  await near(context.env, context.env.PAYER, chain).wake(chain);
  return { chain, recorded: true };
}

/** Has the watcher read confirmed blocks again and credit what was missed. Repeating it is safe. */
export async function rescan(context: OperatorContext): Promise<unknown> {
  const chain = knownChain(context, argument(context, "chain"));
  const [from, to] = [blockOption(context, "from"), blockOption(context, "to")];
  if (from > to) throw badOption("to", "must not be below --from");
  const confirmed = (await readCursor(context.env.DB, chain))?.confirmed.number ?? 0;
  if (to > confirmed) throw badOption("to", `must not be above the confirmed block ${confirmed}`);
  const actor = `operator:${context.operator}` as const;
  const subjectId = `${chain}:${from}-${to}`;
  await recordRescan(context.env.DB, { chain, from, to, actor }, (at) => [
    auditRow({ ...recordFor(actor, "chain_rescanned"), subjectId }, at, TRUE),
  ]);
  await near(context.env, context.env.CHAIN_WATCHER, chain).wake(chain);
  return { chain, from, to, recorded: true };
}

/** Orphans a deposit that can never confirm, or all of a block. */
export async function forget(context: OperatorContext): Promise<unknown> {
  const actor = `operator:${context.operator}` as const;
  if (optional(context, "block") !== undefined) {
    if (optional(context, "id") !== undefined) throw badOption("block", "excludes --id");
    const chain = knownChain(context, argument(context, "chain"));
    const block = blockOption(context, "block");
    const subjectId = `${chain}:${block}`;
    const { forgotten, left } = await forgetBlock(
      context.env.DB,
      { chain, block },
      (at, applied) => [
        auditRow({ ...recordFor(actor, "deposit_forgotten"), subjectId }, at, applied),
      ],
    );
    if (forgotten) return { chain, block, status: "orphaned", left };
    throw notConfirming(`No deposit of block ${block}`);
  }
  const id = idOption(context, "id");
  const forgotten = await forgetDeposit(context.env.DB, id, (at, applied) => [
    auditRow({ ...recordFor(actor, "deposit_forgotten"), subjectId: id }, at, applied),
  ]);
  if (forgotten) return { deposit_id: id, status: "orphaned" };
  throw notConfirming(`No deposit ${id}`);
}

function notConfirming(none: string): OperatorRejection {
  return new OperatorRejection(
    "deposit_not_confirming",
    `${none} waits for its confirmations. See deposits list --status confirming.`,
  );
}

/** Puts a deposit address back on the list of those to sweep. */
export async function resweep(context: OperatorContext): Promise<unknown> {
  const chain = knownChain(context, argument(context, "chain"));
  const address = fieldOption(context, "address", addressField);
  const actor = `operator:${context.operator}` as const;
  const assets = await resweepAddress(context.env.DB, { chain, address }, (at) => [
    auditRow({ ...recordFor(actor, "address_resweep"), subjectId: address }, at, TRUE),
  ]);
  if (assets > 0) return { chain, address, assets };
  throw new OperatorRejection("no_credited_deposit", `No deposit to ${address} was credited.`);
}

function recordFor(actor: AuditActor, kind: PlainKind) {
  return { kind, actor, userId: null, apiKeyId: null, ip: null } as const;
}

function blockOption(context: OperatorContext, name: "from" | "to" | "block"): number {
  const text = option(context, name);
  if (!/^\d{1,15}$/.test(text)) throw badOption(name, "must be a block number");
  return Number(text);
}

/** Throws `chain_unknown` unless the deployment serves the chain. */
function knownChain(context: OperatorContext, chain: string): string {
  if (!context.settings.CHAINS.some((configured) => configured.chain === chain)) {
    throw problem("chain_unknown", `There is no chain ${chain}.`);
  }
  return chain;
}

/**
 * Runs a full reconciliation, from the first transfer on. If the result is `unfinished`, the tool
 * calls it again with `--continue`. `--resolve <reason>` first closes the differences that were
 * found before.
 */
export async function reconcileAll(context: OperatorContext): Promise<unknown> {
  const reason = optional(context, "resolve");
  const resolved =
    reason === undefined ? {} : { resolved: await resolveDifferences(context, reason) };
  const { surplus, ...report } = await reconcile(limited(context.env).DB, {
    chains: context.settings.CHAINS.map(({ chain }) => chain),
    holdingsAt: trackedHoldings(context.env.DB, context.settings),
    macKeys: context.settings,
    addressOf: addressOf(context.settings),
    full: flag(context, "continue") ? "continue" : true,
  });
  return {
    ...report,
    surplus: await withSmallDeposits(context.env.DB, surplus),
    ...resolved,
  };
}

async function resolveDifferences(context: OperatorContext, reason: string): Promise<number> {
  const resolved = await closeAlerts(
    context,
    { kind: "reconciliation" },
    { kind: "differences_resolved", reason },
  );
  if (resolved.length > 0) return resolved.length;
  throw new OperatorRejection(
    "no_open_difference",
    `No difference is open, so none was resolved for the reason "${reason}". ` +
      "Run reconcile without --resolve to look for differences.",
  );
}

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
  const reason = option(context, "reason");
  const actor = `operator:${context.operator}` as const;
  const accepted = await acceptPayment(
    context.env.DB,
    context.settings,
    { paymentId, kind, reason, actor },
    (at, applied) => [
      auditRow({ ...recordFor(actor, "payment_accepted"), subjectId: paymentId }, at, applied),
    ],
  );
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
  const names = context.settings.CHAINS.map(({ chain }) => chain);
  const halted = async (table: typeof payerLeases | typeof chainCursors) => {
    const rows = await read(context.env.DB, ({ select }) =>
      select({ chain: table.chain })
        .from(table)
        .where(and(isNotNull(table.haltedAt), inArray(table.chain, names))),
    );
    return rows.length > 0;
  };
  if ((await halted(payerLeases)) || (await halted(chainCursors))) return true;
  return (await isSealerHalted(context.env)) || isAuditBehind(context);
}
