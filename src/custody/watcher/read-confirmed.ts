/** Reads from enough endpoints every deposit that is credited and every withdrawal that ends. */
import { alertWhile, raiseAlert } from "../../platform/alert.ts";
import { type Block, confirmedHeight } from "../../chain/follow-head.ts";
import {
  type Endpoint,
  InconsistentNode,
  readHeader,
  requireConfirmed,
  requireHash,
} from "../../chain/rpc.ts";
import { type Range, type Scan, scanRange, watchedContracts } from "../../chain/scan.ts";
import { PAYMENT_STATE, readOutcomes } from "../../chain/vault-calls.ts";
import { type Agreed, askAgreed, EndpointsDisagree, jsonOf } from "../../chain/witnesses.ts";
import type { WatcherContext } from "./commit-move.ts";
import { type SeenTransfer, transfersToUs } from "./detect-deposits.ts";

type ConfirmedRange = {
  readonly scan: Scan;
  /** Transfers to deposit addresses. */
  readonly ours: readonly SeenTransfer[];
};

/**
 * Reads a range. `anchor` is a confirmed block on the same fork, just below the range or above it.
 * Raises `nodes_disagree` and throws `EndpointsDisagree` if too few endpoints agree.
 */
export async function readConfirmed(
  context: WatcherContext,
  range: Range,
  anchor: Block,
): Promise<Agreed<ConfirmedRange>> {
  const { db, chain } = context;
  try {
    const agreed = await askAgreed(
      chain,
      (endpoint) => readRange(endpoint, context, range, anchor),
      context.firstEndpoint,
      textOf,
    );
    const { logs, fits } = agreed.value.scan;
    context.pace?.read({ blocks: range.to - range.from + 1, logs, fits });
    const others = agreed.dissenters.join(", ");
    const detail = `${others} disagrees with the other endpoints on blocks ${range.from} to ${range.to}`;
    await alertWhile(db, "nodes_disagree", chain.chain, others === "" ? undefined : detail);
    return agreed;
  } catch (error) {
    if (error instanceof EndpointsDisagree) {
      const detail = `${error.message}, on blocks ${range.from} to ${range.to}`;
      await raiseAlert(db, "nodes_disagree", chain.chain, detail);
    }
    throw error;
  }
}

/** Reads one endpoint. Throws if the result contradicts itself, the anchor or the vault's state. */
async function readRange(
  endpoint: Endpoint,
  context: WatcherContext,
  range: Range,
  anchor: Block,
): Promise<ConfirmedRange> {
  const { settings, chain } = context;
  const head = await readHeader(endpoint, "latest");
  const finalized = chain.finalized ? (await readHeader(endpoint, "finalized")).number : null;
  if (confirmedHeight(chain, head.number, finalized) < range.to)
    throw new InconsistentNode(`block ${range.to} is not confirmed at this endpoint yet`);
  const scan = await scanRange(endpoint, range, watchedContracts(settings, chain));
  if (anchor.number === range.from - 1) requireHash(anchor, scan.first.parentHash);
  else await requireConfirmed(endpoint, anchor);
  await checkFailures(endpoint, scan);
  return { scan, ours: await transfersToUs(context, scan.transfers) };
}

/** Throws unless the vault's state confirms `Failed` and `Voided` events, which cause refunds. */
async function checkFailures(endpoint: Endpoint, scan: Scan): Promise<void> {
  const ended = scan.vaultEvents.filter(({ kind }) => kind === "Failed" || kind === "Voided");
  if (ended.length === 0) return;
  const refundable: readonly (number | undefined)[] = [PAYMENT_STATE.failed, PAYMENT_STATE.voided];
  for (const [vault, events] of Map.groupBy(ended, (event) => event.vault)) {
    const ids = [...new Set(events.map(({ id }) => id))];
    const { states } = await readOutcomes(endpoint, vault, ids, scan.last.hash);
    if (!ids.every((_, index) => refundable.includes(states[index])))
      throw new InconsistentNode("the vault's state differs from its events");
  }
}

/** What endpoints must agree on: the last block, and the position and content of our logs. */
function textOf({ scan, ours }: ConfirmedRange): string {
  const { vaultEvents, sweeps, sweepFailures, last } = scan;
  // Without the ids, because each reading generates new ones.
  const transfers = ours.map((transfer) => ({ ...transfer, id: undefined }));
  return jsonOf([last.hash, transfers, vaultEvents, sweeps, sweepFailures]);
}
