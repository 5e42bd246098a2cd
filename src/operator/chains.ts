import { auditRow } from "../auth/audit.ts";
import { chainStatus, orderResume } from "../custody/chain-orders.ts";
import { trackedHoldings } from "../custody/tracked-holdings.ts";
import { reconcile } from "../ledger/reconcile.ts";
import { problem } from "../platform/problem.ts";
import { NOW } from "../platform/commit.ts";
import { all, sql } from "../platform/sql.ts";
import { recordCommand } from "./audit.ts";
import { argument, type Desk, optional } from "./desk.ts";

export function status(desk: Desk): Promise<unknown> {
  return chainStatus(desk.env.DB, desk.words[0]);
}

/** After a halt and its review: watcher and payer go on. */
export async function resume(desk: Desk): Promise<unknown> {
  const chain = argument(desk, "chain");
  if (!desk.settings.CHAINS.some((known) => known.chain === chain)) throw problem("chain_unknown", `There is no chain ${chain}.`);
  const actor = `operator:${desk.operator}` as const;
  await orderResume(desk.env.DB, chain, actor, (at) => [
    auditRow({ kind: "chain_resumed", actor, userId: null, apiKeyId: null, ip: null, subjectId: chain }, at, sql`1`),
  ]);
  await desk.env.CHAIN_WATCHER.getByName(chain).wake(chain);
  await desk.env.PAYER.getByName(chain).wake(chain);
  return { chain, ordered: true };
}

/** The whole reconciliation, from the first transfer on. `--resolve <reason>`: differences found before are reviewed and closed first. */
export async function reconcileAll(desk: Desk): Promise<unknown> {
  const reason = optional(desk, "resolve");
  if (reason !== undefined) {
    await recordCommand(desk, "differences_resolved", reason);
    await all(desk.env.DB, sql`UPDATE alerts SET resolved_at = ${NOW} WHERE kind = 'reconciliation' AND resolved_at IS NULL`);
  }
  return reconcile(desk.env.DB, {
    chains: desk.settings.CHAINS.map(({ chain }) => chain),
    holdingsAt: trackedHoldings(desk.env.DB, desk.settings),
    full: true,
  });
}

/**
 * After an older database was put back: rebuilds from each chain, and from the payer's own memory of its orders, what the
 * database has forgotten. The payer goes on by itself once nothing is unresolved.
 */
export async function restore(desk: Desk): Promise<unknown> {
  await recordCommand(desk, "restored", null);
  const report = async (chain: string) => {
    // Addresses first: what they received pays for the withdrawals that are rebuilt.
    const addresses = await desk.env.CHAIN_WATCHER.getByName(chain).restore(chain);
    const payer = desk.env.PAYER.getByName(chain);
    const payments = await payer.restore(chain);
    await payer.wake(chain);
    return { ok: addresses.unread_above === null && payments.unresolved.length === 0, addresses, ...payments };
  };
  const names = desk.settings.CHAINS.map(({ chain }) => chain);
  const reports = await Promise.all(names.map(report));
  return { ok: reports.every(({ ok }) => ok), chains: Object.fromEntries(names.map((name, index) => [name, reports[index]])) };
}
