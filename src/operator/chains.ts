import { address as addressField } from "../assets/asset-fields.ts";
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
import { trackedHoldings, withSmallDeposits } from "../reconcile/tracked-holdings.ts";
import { lastFinished, reconcile } from "../reconcile/reconcile.ts";
import { near } from "../platform/near.ts";
import { problem } from "../platform/problem.ts";
import { limited } from "../platform/query-limit.ts";
import { all, sql } from "../platform/sql.ts";
import { databaseBytes, limitBytes } from "../platform/storage.ts";
import { toWireTime } from "../platform/time.ts";
import { closeAlerts } from "./audit-commands.ts";
import {
  actorOf,
  argument,
  badOption,
  fieldOption,
  flag,
  idOption,
  integerOption,
  type OperatorContext,
  optional,
  textOption,
} from "./context.ts";
import { openSettings } from "./doctor.ts";
import { OperatorRejection } from "./operator-rejection.ts";

/** Reads a few rows only, so that a page may poll it. `storage` reads all rows. */
export async function status(context: OperatorContext): Promise<unknown> {
  const [chain] = context.words;
  const name = chain === undefined ? undefined : knownChain(context, chain);
  const chains = await chainStatus(context.env.DB, context.settings, name);
  return { ...chains, ...(await serviceStatus(context)) };
}

/** What `chain status` shows about the whole service: switches, reconciliation and storage. */
async function serviceStatus({ env, settings }: OperatorContext) {
  const switches = await all<{ name: string; reason: string; since: number }>(
    env.DB,
    sql`SELECT name, reason, since FROM kill_switches ORDER BY name`,
  );
  return {
    switches: switches.map(({ since, ...row }) => ({ ...row, since: toWireTime(since) })),
    reconciled: await lastFinished(env.DB),
    // `doctor` says what each one costs.
    fails_open: openSettings(settings).map(({ setting }) => setting),
    storage: { bytes: await databaseBytes(env.DB), limit_bytes: limitBytes(settings) },
  };
}

/** Lets the watcher and the payer continue after a halt and its review. */
export async function resume(context: OperatorContext): Promise<unknown> {
  const chain = knownChain(context, argument(context, "chain"));
  await recordResume(context.env.DB, chain, actorOf(context));
  await near(context.env, context.env.CHAIN_WATCHER, chain).wake(chain);
  await near(context.env, context.env.PAYER, chain).wake(chain);
  return { chain, recorded: true };
}

/** Has the watcher read confirmed blocks again and credit what was missed. Repeating it is safe. */
export async function rescan(context: OperatorContext): Promise<unknown> {
  const chain = knownChain(context, argument(context, "chain"));
  const [from, to] = [integerOption(context, "from"), integerOption(context, "to")];
  if (from > to) throw badOption("to", "must not be below --from");
  const confirmed = (await readCursor(context.env.DB, chain))?.confirmed.number ?? 0;
  if (to > confirmed) throw badOption("to", `must not be above the confirmed block ${confirmed}`);
  await recordRescan(context.env.DB, { chain, from, to, actor: actorOf(context) });
  await near(context.env, context.env.CHAIN_WATCHER, chain).wake(chain);
  return { chain, from, to, recorded: true };
}

/** Orphans a deposit that can never confirm, or all of a block. */
export async function forget(context: OperatorContext): Promise<unknown> {
  const { DB } = context.env;
  const actor = actorOf(context);
  if (optional(context, "block") !== undefined) {
    if (optional(context, "id") !== undefined) throw badOption("block", "excludes --id");
    const chain = knownChain(context, argument(context, "chain"));
    const block = integerOption(context, "block");
    const { forgotten, left } = await forgetBlock(DB, { chain, block, actor });
    if (forgotten) return { chain, block, status: "orphaned", left };
    throw notConfirming(`No deposit of block ${block}`);
  }
  const id = idOption(context, "id");
  if (await forgetDeposit(DB, id, actor)) return { deposit_id: id, status: "orphaned" };
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
  const of = { chain, address, actor: actorOf(context) };
  const assets = await resweepAddress(context.env.DB, of);
  if (assets > 0) return { chain, address, assets };
  throw new OperatorRejection("no_credited_deposit", `No deposit to ${address} was credited.`);
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
 * calls it again with `--continue`. `--resolve <reason>` first closes the earlier differences.
 */
export async function reconcileAll(context: OperatorContext): Promise<unknown> {
  const reason =
    context.options["resolve"] === undefined ? undefined : textOption(context, "resolve");
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
