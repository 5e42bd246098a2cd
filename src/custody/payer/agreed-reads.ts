/**
 * What the payer reads of the chain. All that it ends, reopens or halts rests on what enough
 * endpoints agree on (witnesses.ts). If only one of several responds, its word is enough to pay, as
 * the database allocates nonces and the vault pays each id once, but not to end, reopen or halt.
 */
import {
  askAny,
  type BlockHeader,
  type Endpoint,
  endpoints,
  gather,
  type Hex,
  noncesAtBlock,
  readHead,
  readHeader,
  requireConfirmed,
  requireHash,
  RpcUnavailable,
} from "../../chain/rpc.ts";
import type { Cursor } from "../../chain/chain-cursor.ts";
import { hasPayerRole, readOutcomes, readVaultStatus } from "../../chain/vault-calls.ts";
import { askAgreed, askHighest } from "../../chain/witnesses.ts";
import { type ChainConfig, witnessesOf } from "../../platform/config.ts";
import type { HeadView } from "./payer-context.ts";

/**
 * Reads the head that enough endpoints have reached, asking `preferred` first. Throws if they
 * differ, or if the chain no longer has the confirmed block, for which the watcher halts it.
 */
export async function readAgreedHead(
  chain: ChainConfig,
  { confirmed, headNumber }: Cursor,
  sender: Hex,
  preferred: number,
): Promise<Pick<HeadView, "endpoint" | "head" | "usedNonces" | "agreed">> {
  try {
    const heads = new Map<string, BlockHeader>();
    const { height } = await askHighest(chain, async (endpoint) => {
      const head = await readHead(endpoint, headNumber);
      heads.set(endpoint.url, head);
      return head.number;
    });
    // The confirmed block is part of what endpoints must agree on.
    const readBlocks = async (one: Endpoint) => {
      const own = heads.get(one.url);
      const head = own?.number === height ? own : await readHeader(one, height);
      const anchor = confirmed.number === height ? head : await readHeader(one, confirmed.number);
      return { head, anchor: anchor.hash };
    };
    const { head, anchor } = (await askAgreed(chain, readBlocks, preferred)).value;
    requireHash(confirmed, anchor);
    const { value: usedNonces, endpoint } = await askAgreed(
      chain,
      (one) => noncesAtBlock(one, sender, head.hash),
      preferred,
    );
    return { head, usedNonces, endpoint, agreed: true };
  } catch (error) {
    if (witnessesOf(chain) === 1 || !(error instanceof RpcUnavailable)) throw error;
  }
  return askAny(
    chain,
    async (endpoint) => {
      const head = await readHead(endpoint, headNumber);
      await requireConfirmed(endpoint, confirmed, head);
      const usedNonces = await noncesAtBlock(endpoint, sender, head.hash);
      return { head, usedNonces, endpoint, agreed: false };
    },
    preferred,
  );
}

/** Priority fee in wei if no node suggests one: 1 gwei. */
const DEFAULT_TIP = 1_000_000_000n;

/** The lower median of the tips that nodes suggest, because none can be verified. */
export async function readTip(chain: ChainConfig): Promise<bigint> {
  const quick = await suggestedTips(endpoints(chain), chain.rpc_urls.length);
  const tips =
    quick.length > 0 ? quick : await suggestedTips(endpoints(chain, "patient"), witnessesOf(chain));
  return tips[Math.floor((tips.length - 1) / 2)] ?? DEFAULT_TIP;
}

/** Tips in order. Waits for no more than `enough`. */
async function suggestedTips(asked: readonly Endpoint[], enough: number): Promise<bigint[]> {
  const tips: bigint[] = [];
  const asks = asked.map(({ client }) =>
    client
      .request({ method: "eth_maxPriorityFeePerGas" })
      .then((tip) => void tips.push(BigInt(tip)))
      .catch(() => {}),
  );
  await gather(asks, () => tips.length >= enough);
  return tips.toSorted((a, b) => Number(a - b));
}

type View = Pick<HeadView, "chain" | "cursor">;

export function confirmedNonces(view: View, sender: Hex): Promise<number> {
  return atConfirmed(view, (endpoint, block) => noncesAtBlock(endpoint, sender, block));
}

/** Outcomes of payment ids, and the vault's next batch number, at the confirmed block. */
export function confirmedOutcomes(
  view: View,
  vault: string,
  ids: readonly Hex[],
): ReturnType<typeof readOutcomes> {
  return atConfirmed(view, (endpoint, block) => readOutcomes(endpoint, vault, ids, block));
}

export function confirmedPayerRole(view: View, vault: string, account: Hex): Promise<boolean> {
  return atConfirmed(view, (endpoint, blockHash) =>
    hasPayerRole(endpoint, { vault, account, blockHash }),
  );
}

async function atConfirmed<T>(
  { chain, cursor: { confirmed } }: View,
  ask: (endpoint: Endpoint, blockHash: Hex) => Promise<T>,
): Promise<T> {
  const { value } = await askAgreed(chain, async (endpoint) => {
    await requireConfirmed(endpoint, confirmed);
    return ask(endpoint, confirmed.hash);
  });
  return value;
}

/** The vault's next batch number and whether it is paused, at the head that was agreed on. */
export async function vaultAtHead(context: HeadView): ReturnType<typeof readVaultStatus> {
  const { chain, head, endpoint, agreed } = context;
  if (!agreed) return readVaultStatus(endpoint, chain, head.hash);
  const { value } = await askAgreed(
    chain,
    (one) => readVaultStatus(one, chain, head.hash),
    context.firstEndpoint,
  );
  return value;
}
