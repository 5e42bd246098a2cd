import { auditRow } from "../auth/audit.ts";
import { chainStatus, recordResume } from "../custody/operator-commands.ts";
import { trackedHoldings } from "../custody/tracked-holdings.ts";
import { reconcile } from "../ledger/reconcile.ts";
import { problem } from "../platform/problem.ts";
import { first, sql } from "../platform/sql.ts";
import { closeAlerts, recordCommand } from "./audit.ts";
import { argument, type OperatorContext, optional } from "./context.ts";
import { OperatorRejection } from "./operator-rejection.ts";

export async function status(context: OperatorContext): Promise<unknown> {
  const [chain] = context.words;
  return chainStatus(context.env.DB, chain === undefined ? undefined : known(context, chain));
}

/** After a halt and its review: watcher and payer go on. */
export async function resume(context: OperatorContext): Promise<unknown> {
  const chain = known(context, argument(context, "chain"));
  const actor = `operator:${context.operator}` as const;
  await recordResume(context.env.DB, chain, actor, (at) => [
    auditRow(
      { kind: "chain_resumed", actor, userId: null, apiKeyId: null, ip: null, subjectId: chain },
      at,
      sql`1`,
    ),
  ]);
  await context.env.CHAIN_WATCHER.getByName(chain).wake(chain);
  await context.env.PAYER.getByName(chain).wake(chain);
  return { chain, recorded: true };
}

function known(context: OperatorContext, chain: string): string {
  if (!context.settings.CHAINS.some((configured) => configured.chain === chain)) {
    throw problem("chain_unknown", `There is no chain ${chain}.`);
  }
  return chain;
}

/** The whole reconciliation, from the first transfer on. `--resolve <reason>`: differences found before are reviewed and closed first. */
export async function reconcileAll(context: OperatorContext): Promise<unknown> {
  const reason = optional(context, "resolve");
  const resolved =
    reason === undefined ? {} : { resolved: await resolveDifferences(context, reason) };
  const found = await reconcile(context.env.DB, {
    chains: context.settings.CHAINS.map(({ chain }) => chain),
    holdingsAt: trackedHoldings(context.env.DB, context.settings),
    full: true,
  });
  return { ...found, ...resolved };
}

async function resolveDifferences(context: OperatorContext, reason: string): Promise<number> {
  const resolved = await closeAlerts(context, "reconciliation", {
    kind: "differences_resolved",
    reason,
  });
  if (resolved.length > 0) return resolved.length;
  throw new OperatorRejection(
    "no_open_difference",
    `There is no open difference to resolve for the reason "${reason}"; reconcile alone looks for some.`,
  );
}

/**
 * After an older database was put back: rebuilds from each chain, and from the payer's own memory of its orders, what the
 * database has forgotten. The payer goes on by itself once nothing is unresolved. An older database halts the payer, so
 * where nothing is halted it is `--yes` that says one was put back.
 */
export async function restore(context: OperatorContext): Promise<unknown> {
  if (context.options["yes"] !== "true" && !(await anyHalted(context))) {
    throw new OperatorRejection(
      "nothing_halted",
      "Neither a payer nor a chain is halted, so nothing looks restored. Once the service has seen an older database, the payer halts by itself (chain status). To read the chains again all the same, add --yes.",
    );
  }
  await recordCommand(context, "restored", null);
  const report = async (chain: string) => {
    // Addresses first: what they received pays for the withdrawals that are rebuilt.
    const addresses = await context.env.CHAIN_WATCHER.getByName(chain).restore(chain);
    const payer = context.env.PAYER.getByName(chain);
    const payments = await payer.restore(chain);
    await payer.wake(chain);
    return {
      ok: addresses.unread_above === null && payments.unresolved.length === 0,
      addresses,
      ...payments,
    };
  };
  const names = context.settings.CHAINS.map(({ chain }) => chain);
  const reports = await Promise.all(names.map(report));
  return {
    ok: reports.every(({ ok }) => ok),
    chains: Object.fromEntries(names.map((name, index) => [name, reports[index]])),
  };
}

async function anyHalted(context: OperatorContext): Promise<boolean> {
  const names = JSON.stringify(context.settings.CHAINS.map(({ chain }) => chain));
  const halted = sql`halted_at IS NOT NULL AND chain IN (SELECT value FROM json_each(${names}))`;
  return (
    (await first(
      context.env.DB,
      sql`SELECT 1 FROM payer_leases WHERE ${halted} UNION ALL SELECT 1 FROM chain_cursors WHERE ${halted} LIMIT 1`,
    )) !== undefined
  );
}
