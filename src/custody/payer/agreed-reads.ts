/**
 * What the payer reads of the chain. Everything that it ends, reopens or halts rests on what enough
 * endpoints agree on (witnesses.ts).
 *
 * While only one of several endpoints responds, or the others lag, its word is enough to pay: the
 * database allocates nonces, and the vault pays each id once. Then nothing ends, reopens or halts.
 */
import {
  askAny,
  type BlockHeader,
  type Endpoint,
  endpoints,
  gather,
  type Hex,
  InconsistentNode,
  noncesAtBlock,
  readHead,
  readHeader,
  requireConfirmed,
  RpcUnavailable,
} from "../../chain/rpc.ts";
import type { Cursor } from "../../chain/chain-cursor.ts";
import { hasPayerRole, readOutcomes, readVaultStatus } from "../../chain/vault-calls.ts";
import { askAgreed, askHighest } from "../../chain/witnesses.ts";
import { type ChainConfig, witnessesOf } from "../../platform/config.ts";
import type { HeadView } from "./payer-context.ts";

export type AgreedHead = Pick<HeadView, "endpoint" | "head" | "usedNonces" | "agreed">;

type Asked = {
  readonly chain: ChainConfig;
  readonly cursor: Cursor;
  readonly sender: Hex;
  /** Index of the first endpoint to ask. */
  readonly preferred: number;
};

/** Reads the head that enough endpoints have reached. Throws `EndpointsDisagree` if they differ. */
export async function readAgreedHead(asked: Asked): Promise<AgreedHead> {
  const { chain, cursor, sender, preferred } = asked;
  try {
    const heads = new Map<string, BlockHeader>();
    const { height } = await askHighest(chain, async (endpoint) => {
      const head = await readHead(endpoint, cursor.headNumber);
      heads.set(endpoint.url, head);
      return head.number;
    });
    const readBlocks = async (one: Endpoint) => {
      const own = heads.get(one.url);
      return withConfirmed(
        one,
        own?.number === height ? own : await readHeader(one, height),
        cursor,
      );
    };
    const { head } = checked((await askAgreed(chain, readBlocks, preferred)).value, cursor);
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
      const latest = await readHead(endpoint, cursor.headNumber);
      const { head } = checked(await withConfirmed(endpoint, latest, cursor), cursor);
      const usedNonces = await noncesAtBlock(endpoint, sender, head.hash);
      return { head, usedNonces, endpoint, agreed: false };
    },
    preferred,
  );
}

/** Priority fee in wei if no node suggests one: 1 gwei. */
const DEFAULT_TIP = 1_000_000_000n;

/** Of the tips that nodes suggest the lower median, because none can be verified. */
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

type Blocks = { readonly head: BlockHeader; readonly confirmed: Hex };

/** The head with the endpoint's hash of the confirmed block. */
async function withConfirmed(
  endpoint: Endpoint,
  head: BlockHeader,
  { confirmed: { number } }: Cursor,
): Promise<Blocks> {
  const { hash } = number === head.number ? head : await readHeader(endpoint, number);
  return { head, confirmed: hash };
}

/** Throws if the chain no longer has the confirmed block. The watcher halts it then. */
function checked(blocks: Blocks, { confirmed }: Cursor): Blocks {
  if (blocks.confirmed !== confirmed.hash)
    throw new InconsistentNode(`block ${confirmed.number} is not the confirmed block`);
  return blocks;
}

/** Nonces that an account has used at the confirmed block. */
export function confirmedNonces(
  { chain, cursor }: Pick<HeadView, "chain" | "cursor">,
  sender: Hex,
): Promise<number> {
  return atConfirmed(chain, cursor, (endpoint) =>
    noncesAtBlock(endpoint, sender, cursor.confirmed.hash),
  );
}

/** Outcomes of payment ids, and the vault's next batch number, at the confirmed block. */
export function confirmedOutcomes(
  { chain, cursor }: { readonly chain: ChainConfig; readonly cursor: Cursor },
  vault: string,
  ids: readonly Hex[],
): ReturnType<typeof readOutcomes> {
  return atConfirmed(chain, cursor, (endpoint) =>
    readOutcomes(endpoint, vault, ids, cursor.confirmed.hash),
  );
}

/** Whether an account may pay from a vault at the confirmed block. */
export function confirmedPayerRole(
  { chain, cursor }: Pick<HeadView, "chain" | "cursor">,
  vault: string,
  account: Hex,
): Promise<boolean> {
  return atConfirmed(chain, cursor, (endpoint) =>
    hasPayerRole(endpoint, { vault, account, blockHash: cursor.confirmed.hash }),
  );
}

async function atConfirmed<T>(
  chain: ChainConfig,
  { confirmed }: Cursor,
  ask: (endpoint: Endpoint) => Promise<T>,
): Promise<T> {
  const { value } = await askAgreed(chain, async (endpoint) => {
    await requireConfirmed(endpoint, confirmed);
    return ask(endpoint);
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
