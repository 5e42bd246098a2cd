/**
 * Reads a range of confirmed blocks from as many endpoints as money needs, and returns what they
 * agree on. Everything that credits a deposit, settles a withdrawal or fails one reads the chain
 * here.
 */
import { raiseAlert, clearAlert } from "../../chain/alert.ts";
import type { Block } from "../../chain/follow-head.ts";
import { confirmedHeight } from "../../chain/follow-head.ts";
import { type Endpoint, NodeDisagrees, readHeader } from "../../chain/rpc.ts";
import { type Range, type Scan, scanRange, watchedContracts } from "../../chain/scan.ts";
import { PAYMENT_STATE, readOutcomes } from "../../chain/vault.ts";
import { type Agreed, askAgreed, NodesDisagree } from "../../chain/witnesses.ts";
import type { WatcherContext } from "./commit-move.ts";
import { type SeenTransfer, transfersToUs } from "./detect-deposits.ts";

export type ConfirmedRange = {
  readonly scan: Scan;
  /** Transfers to deposit addresses. */
  readonly ours: readonly SeenTransfer[];
};

/**
 * `anchor` is a confirmed block that the range must belong to: the block below it, or one above.
 * Throws `NodesDisagree`, with the alert `nodes_disagree` raised, when the endpoints do not agree;
 * then nothing may be committed.
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
      textOf,
    );
    if (agreed.dissenters.length === 0) await clearAlert(db, "nodes_disagree", chain.chain);
    else {
      const others = agreed.dissenters.join(", ");
      await raiseAlert(
        db,
        "nodes_disagree",
        chain.chain,
        `${others} differs from the other endpoints about blocks ${range.from} to ${range.to}`,
      );
    }
    return agreed;
  } catch (error) {
    if (error instanceof NodesDisagree) {
      const detail = `${error.message}, about blocks ${range.from} to ${range.to}`;
      await raiseAlert(db, "nodes_disagree", chain.chain, detail);
    }
    throw error;
  }
}

/**
 * One endpoint's reading. It throws where the endpoint contradicts itself, the anchor, or the
 * vault's own state.
 */
async function readRange(
  endpoint: Endpoint,
  { db, settings, chain }: WatcherContext,
  range: Range,
  anchor: Block,
): Promise<ConfirmedRange> {
  const head = await readHeader(endpoint, "latest");
  const finalized = chain.finalized ? (await readHeader(endpoint, "finalized")).number : null;
  if (confirmedHeight(chain, head.number, finalized) < range.to)
    throw new NodeDisagrees(`block ${range.to} is not confirmed here yet`);
  const scan = await scanRange(endpoint, range, watchedContracts(settings, chain));
  await checkAnchor(endpoint, scan, range, anchor);
  await checkFailures(endpoint, { chain, scan });
  return { scan, ours: await transfersToUs(db, settings, chain, scan.transfers) };
}

async function checkAnchor(
  endpoint: Endpoint,
  scan: Scan,
  range: Range,
  anchor: Block,
): Promise<void> {
  const joined =
    anchor.number === range.from - 1
      ? scan.first.parentHash === anchor.hash
      : (await readHeader(endpoint, anchor.number)).hash === anchor.hash;
  if (!joined) throw new NodeDisagrees(`block ${anchor.number} is not the confirmed one here`);
}

/**
 * A refund follows from `Failed` and `Voided`, so the vault's own state must say the same at the
 * end of the range.
 */
async function checkFailures(
  endpoint: Endpoint,
  { chain, scan }: { chain: WatcherContext["chain"]; scan: Scan },
): Promise<void> {
  const ended = scan.vaultEvents.filter(({ kind }) => kind === "Failed" || kind === "Voided");
  if (ended.length === 0) return;
  const ids = [...new Set(ended.map(({ id }) => id))];
  const { states } = await readOutcomes(endpoint, chain, ids, scan.last.hash);
  const refundable: readonly (number | undefined)[] = [PAYMENT_STATE.failed, PAYMENT_STATE.voided];
  if (!ids.every((_, index) => refundable.includes(states[index])))
    throw new NodeDisagrees("the vault's state differs from its events");
}

/**
 * What must be the same: the last block, and every log that concerns us with its place and content.
 */
function textOf({ scan, ours }: ConfirmedRange): string {
  const { vaultEvents, sweeps, sweepFailures, last } = scan;
  // Each reading gives its deposits a new id; the rest must be the same.
  const transfers = ours.map((transfer) => ({ ...transfer, id: undefined }));
  return JSON.stringify([last.hash, transfers, vaultEvents, sweeps, sweepFailures], (_, value) =>
    typeof value === "bigint" ? value.toString() : value,
  );
}
