/**
 * Reads what pairs rest on from a venue's token contract (Gnosis Conditional Tokens): the two
 * tokens of a condition, and what they pay. Two endpoints must agree on it at the confirmed block.
 */
import { type Abi, type Address, getAddress, type Hex, parseAbi, zeroHash } from "viem";
import { inChunks } from "../platform/chunks.ts";
import { type ChainConfig, type Config, venueConfig, witnessesOf } from "../platform/config.ts";
import { readCursor } from "./chain-cursor.ts";
import { askAgreed } from "./witnesses.ts";

const ABI: Abi = parseAbi([
  "function getOutcomeSlotCount(bytes32) view returns (uint256)",
  "function getCollectionId(bytes32, bytes32, uint256) view returns (bytes32)",
  "function getPositionId(address, bytes32) view returns (uint256)",
  "function payoutDenominator(bytes32) view returns (uint256)",
  "function payoutNumerators(bytes32, uint256) view returns (uint256)",
]);

/** As PER_CALL of holdings.ts. The calls have at most 96 bytes of arguments. */
const PER_CALL = 120;

type Call = readonly [functionName: string, args: readonly (string | bigint)[]];

/** A venue's contract after the confirmed block. Throws if too few endpoints can show it. */
export type Conditions = {
  readonly chain: string;
  /** Nothing that was read is true of a block below it. */
  readonly block: number;
  /** `[]` for a condition that is not prepared with two outcomes, or has a result. */
  readonly positions: (conditions: readonly string[]) => Promise<(readonly string[])[]>;
  /** Per token, in millionths, rounded down. Null: no result yet. */
  readonly payouts: (conditions: readonly string[]) => Promise<(readonly number[] | null)[]>;
};

export async function conditionsOf(
  db: D1Database,
  settings: Config,
  venue: string,
): Promise<Conditions> {
  const { chain: name, collateral, outcome_tokens: contract } = venueConfig(settings, venue);
  const chain = settings.CHAINS.find((one) => one.chain === name);
  if (chain === undefined || collateral === undefined || contract === undefined)
    throw new Error(`${venue} has no collateral`);
  if (witnessesOf(chain) < 2) throw new Error(`${chain.chain} has only one RPC endpoint`);
  const cursor = await readCursor(db, chain.chain);
  if (cursor === undefined || cursor.haltedAt !== null)
    throw new Error(`${chain.chain} is halted or has no confirmed block`);
  const { number: block, hash } = cursor.confirmed;
  const ask = (calls: readonly Call[]) => readAll(chain, getAddress(contract), hash, calls);
  return {
    chain: chain.chain,
    block,
    positions: (conditions) => positionsOf(conditions, getAddress(collateral), ask),
    payouts: (conditions) => payoutsOf(conditions, ask),
  };
}

type Ask = (calls: readonly Call[]) => Promise<unknown[]>;

async function readAll(
  chain: ChainConfig,
  address: Address,
  blockHash: Hex,
  calls: readonly Call[],
): Promise<unknown[]> {
  const results: unknown[] = [];
  for (const chunk of inChunks(calls, PER_CALL)) {
    const { value } = await askAgreed(chain, ({ client }) =>
      client.multicall({
        contracts: chunk.map(([functionName, args]) => ({
          abi: ABI,
          address,
          functionName,
          args,
        })),
        allowFailure: false,
        deployless: true,
        batchSize: 0,
        blockHash,
        requireCanonical: true,
      }),
    );
    results.push(...value);
  }
  return results;
}

async function positionsOf(
  conditions: readonly string[],
  collateral: Address,
  ask: Ask,
): Promise<(readonly string[])[]> {
  const facts = await ask(
    conditions.flatMap((id): Call[] => [
      ["getOutcomeSlotCount", [id]],
      ["payoutDenominator", [id]],
    ]),
  );
  const isFit = (index: number) => facts[2 * index] === 2n && facts[2 * index + 1] === 0n;
  const fit = conditions.filter((_, index) => isFit(index));
  // An outcome's index set has its bit alone.
  const collections = await ask(
    fit.flatMap((id): Call[] => [1n, 2n].map((set) => ["getCollectionId", [zeroHash, id, set]])),
  );
  const ids = await ask(
    collections.map((collection): Call => ["getPositionId", [collateral, String(collection)]]),
  );
  const found = ids.map((id) => `0x${BigInt(String(id)).toString(16)}`);
  return conditions.map((id) => {
    const at = fit.indexOf(id);
    return at < 0 ? [] : found.slice(2 * at, 2 * at + 2);
  });
}

async function payoutsOf(
  conditions: readonly string[],
  ask: Ask,
): Promise<(readonly number[] | null)[]> {
  const denominators = await ask(conditions.map((id): Call => ["payoutDenominator", [id]]));
  const resolved = conditions.filter((_, index) => denominators[index] !== 0n);
  const numerators = await ask(
    resolved.flatMap((id): Call[] => [0n, 1n].map((slot) => ["payoutNumerators", [id, slot]])),
  );
  return conditions.map((id, index) => {
    const at = resolved.indexOf(id);
    const of = (slot: number) =>
      Number(
        (1_000_000n * BigInt(String(numerators[2 * at + slot]))) /
          BigInt(String(denominators[index])),
      );
    return at < 0 ? null : [of(0), of(1)];
  });
}
