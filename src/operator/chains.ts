import { auditRow } from "../auth/audit.ts";
import { chainStatus, orderResume } from "../custody/operator-commands.ts";
import { trackedHoldings } from "../custody/tracked-holdings.ts";
import { reconcile } from "../ledger/reconcile.ts";
import { problem } from "../platform/problem.ts";
import { first, sql } from "../platform/sql.ts";
import { closeAlerts, recordCommand } from "./audit.ts";
import { argument, type Desk, optional } from "./context.ts";
import { Refusal } from "./refusal.ts";

export async function status(desk: Desk): Promise<unknown> {
  const [chain] = desk.words;
  return chainStatus(desk.env.DB, chain === undefined ? undefined : known(desk, chain));
}

/** After a halt and its review: watcher and payer go on. */
export async function resume(desk: Desk): Promise<unknown> {
  const chain = known(desk, argument(desk, "chain"));
  const actor = `operator:${desk.operator}` as const;
  await orderResume(desk.env.DB, chain, actor, (at) => [
    auditRow(
      { kind: "chain_resumed", actor, userId: null, apiKeyId: null, ip: null, subjectId: chain },
      at,
      sql`1`,
    ),
  ]);
  await desk.env.CHAIN_WATCHER.getByName(chain).wake(chain);
  await desk.env.PAYER.getByName(chain).wake(chain);
  return { chain, ordered: true };
}

function known(desk: Desk, chain: string): string {
  if (!desk.settings.CHAINS.some((configured) => configured.chain === chain)) {
    throw problem("chain_unknown", `There is no chain ${chain}.`);
  }
  return chain;
}

/** The whole reconciliation, from the first transfer on. `--resolve <reason>`: differences found before are reviewed and closed first. */
export async function reconcileAll(desk: Desk): Promise<unknown> {
  const reason = optional(desk, "resolve");
  const resolved = reason === undefined ? {} : { resolved: await resolveDifferences(desk, reason) };
  const found = await reconcile(desk.env.DB, {
    chains: desk.settings.CHAINS.map(({ chain }) => chain),
    holdingsAt: trackedHoldings(desk.env.DB, desk.settings),
    full: true,
  });
  return { ...found, ...resolved };
}

async function resolveDifferences(desk: Desk, reason: string): Promise<number> {
  const resolved = await closeAlerts(desk, "reconciliation", {
    kind: "differences_resolved",
    reason,
  });
  if (resolved.length > 0) return resolved.length;
  throw new Refusal(
    "no_open_difference",
    `There is no open difference to resolve for the reason "${reason}"; reconcile alone looks for some.`,
  );
}

/**
 * After an older database was put back: rebuilds from each chain, and from the payer's own memory of its orders, what the
 * database has forgotten. The payer goes on by itself once nothing is unresolved. An older database halts the payer, so
 * where nothing is halted it is `--yes` that says one was put back.
 */
export async function restore(desk: Desk): Promise<unknown> {
  if (desk.options["yes"] !== "true" && !(await anyHalted(desk))) {
    throw new Refusal(
      "nothing_halted",
      "Neither a payer nor a chain is halted, so nothing looks restored. Once the service has seen an older database, the payer halts by itself (chain status). To read the chains again all the same, add --yes.",
    );
  }
  await recordCommand(desk, "restored", null);
  const report = async (chain: string) => {
    // Addresses first: what they received pays for the withdrawals that are rebuilt.
    const addresses = await desk.env.CHAIN_WATCHER.getByName(chain).restore(chain);
    const payer = desk.env.PAYER.getByName(chain);
    const payments = await payer.restore(chain);
    await payer.wake(chain);
    return {
      ok: addresses.unread_above === null && payments.unresolved.length === 0,
      addresses,
      ...payments,
    };
  };
  const names = desk.settings.CHAINS.map(({ chain }) => chain);
  const reports = await Promise.all(names.map(report));
  return {
    ok: reports.every(({ ok }) => ok),
    chains: Object.fromEntries(names.map((name, index) => [name, reports[index]])),
  };
}

async function anyHalted(desk: Desk): Promise<boolean> {
  const names = JSON.stringify(desk.settings.CHAINS.map(({ chain }) => chain));
  const halted = sql`halted_at IS NOT NULL AND chain IN (SELECT value FROM json_each(${names}))`;
  return (
    (await first(
      desk.env.DB,
      sql`SELECT 1 FROM payer_leases WHERE ${halted} UNION ALL SELECT 1 FROM chain_cursors WHERE ${halted} LIMIT 1`,
    )) !== undefined
  );
}
