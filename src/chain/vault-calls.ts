/** Encodes calls to the vault and the factory, and decodes what they return, for the payer. */
import {
  type Address,
  BaseError,
  ContractFunctionRevertedError,
  decodeFunctionData,
  encodeFunctionData,
  getAddress,
  type Hex,
  keccak256,
  toBytes,
  zeroHash,
} from "viem";
import type { ChainConfig } from "../platform/config.ts";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import type { Endpoint } from "./rpc.ts";
import { ERC20, type Token } from "./token.ts";

/** The values of Vault.sol. */
export const MAX_PAYMENTS = 50;
export const MAX_VOIDS = 200;
/** The value of DepositFactory.sol. */
export const MAX_SWEEPS = 75;

/** Kinds of limit in Limits.sol that all ids of a contract share. */
const [ERC1155_TOTAL, ERC1155_TRANSACTION] = [3, 5] as const;

/** Values of `reason` in Vault.sol's `Skipped` event. `refused`: the token refuses anybody. */
export const SKIP_REASON = { alreadyDone: 1, short: 2, overLimit: 3, refused: 5 } as const;

/** Values of Vault.state(id). */
export const PAYMENT_STATE = { none: 0, paid: 1, failed: 2, voided: 3 } as const;

export type Payment = Token & { readonly id: Hex; readonly amount: bigint; readonly to: Address };
export type Call = { readonly to: Address; readonly data: Hex; readonly gasLimit: bigint };

/**
 * Gas limits by the constants of Vault.sol and DepositFactory.sol, which a test compares. No node
 * is asked: with too little gas a transaction reverts, and with more than a block has nobody mines
 * it, which would block the account's nonces permanently.
 */
export const gasLimits = {
  pay: (erc20: number, erc1155: number): bigint =>
    600_000n + BigInt(erc20) * 145_000n + BigInt(erc1155) * 148_000n,
  void: (ids: number): bigint => 80_000n + BigInt(ids) * 35_000n,
  sweep: (items: number): bigint => 150_000n + BigInt(items) * 215_000n,
};

/** Upper bound of a payment's gas limit. */
export const FULL_BATCH_GAS = gasLimits.pay(0, MAX_PAYMENTS);

export function payCall(
  chain: ChainConfig,
  batch: { batchNo: number; deadline: bigint; payments: readonly Payment[] },
): Call {
  const erc20 = batch.payments.filter((payment) => payment.kind === ERC20).length;
  const data = encodeFunctionData({
    abi: vaultAbi,
    functionName: "pay",
    args: [BigInt(batch.batchNo), batch.deadline, [...batch.payments]],
  });
  const gasLimit = gasLimits.pay(erc20, batch.payments.length - erc20);
  return { to: getAddress(chain.vault), data, gasLimit };
}

export function voidCall(chain: ChainConfig, ids: readonly Hex[]): Call {
  const data = encodeFunctionData({ abi: vaultAbi, functionName: "void", args: [[...ids]] });
  return { to: getAddress(chain.vault), data, gasLimit: gasLimits.void(ids.length) };
}

export type SweepItem = Token & { readonly salt: Hex };

export function sweepCall(chain: ChainConfig, items: readonly SweepItem[]): Call {
  const data = encodeFunctionData({
    abi: depositFactoryAbi,
    functionName: "sweep",
    args: [items.map((item) => ({ ...item, minAmount: 0n }))],
  });
  return { to: getAddress(chain.factory), data, gasLimit: gasLimits.sweep(items.length) };
}

/** The vault that a sweep moves deposits to. The factory's admin can change it. */
export function readSweepTarget({ client }: Endpoint, chain: ChainConfig): Promise<Address> {
  return client.readContract({
    address: getAddress(chain.factory),
    abi: depositFactoryAbi,
    functionName: "vault",
  });
}

/** The items of a sweep, from the data of its call. */
export function decodeSweep(data: Hex): readonly Omit<SweepItem, "kind">[] {
  const { functionName, args } = decodeFunctionData({ abi: depositFactoryAbi, data });
  if (functionName !== "sweep") throw new Error(`not a sweep: ${functionName}`);
  return args[0];
}

/** A vault's state after a block. EIP-1898 names it by hash, so a reorg cannot change it. */
function vaultAfter(vault: string, blockHash: Hex) {
  return { address: getAddress(vault), abi: vaultAbi, blockHash, requireCanonical: true } as const;
}

/** Reads the vault's next batch number and whether it is paused, after a block. */
export async function readVaultStatus(
  { client }: Endpoint,
  chain: ChainConfig,
  blockHash: Hex,
): Promise<{ nextBatchNo: number; paused: boolean }> {
  const vault = vaultAfter(chain.vault, blockHash);
  const [nextBatchNo, paused] = await Promise.all([
    client.readContract({ ...vault, functionName: "nextBatchNo" }),
    client.readContract({ ...vault, functionName: "paused" }),
  ]);
  return { nextBatchNo: Number(nextBatchNo), paused };
}

/** Reads the outcomes of payment ids and the next batch number after a block. */
export async function readOutcomes(
  { client }: Endpoint,
  vault: string,
  ids: readonly Hex[],
  blockHash: Hex,
): Promise<{ states: readonly number[]; nextBatchNo: number }> {
  const at = vaultAfter(vault, blockHash);
  const nextBatchNo = Number(await client.readContract({ ...at, functionName: "nextBatchNo" }));
  if (ids.length === 0) return { states: [], nextBatchNo };
  const states = await client.readContract({ ...at, functionName: "states", args: [[...ids]] });
  return { states, nextBatchNo };
}

const PAYER_ROLE = keccak256(toBytes("PAYER_ROLE"));

export function hasPayerRole(
  { client }: Endpoint,
  of: { readonly vault: string; readonly account: Hex; readonly blockHash: Hex },
): Promise<boolean> {
  const at = vaultAfter(of.vault, of.blockHash);
  return client.readContract({ ...at, functionName: "hasRole", args: [PAYER_ROLE, of.account] });
}

/**
 * What the vault's limits leave of at most 100 assets after a block, in one call: the largest
 * payment ever possible, and possible now. Then of ERC-1155 contracts, whose ids share two limits.
 */
export async function readPaymentLimits(
  { client }: Endpoint,
  chain: ChainConfig,
  of: { readonly tokens: readonly Token[]; contracts: readonly Address[]; block: number },
): Promise<{ maximum: bigint; available: bigint }[]> {
  const { tokens, contracts, block } = of;
  const vault = { address: getAddress(chain.vault), abi: vaultAbi } as const;
  const read = await client.multicall({
    contracts: [
      ...tokens.map(({ kind, token, tokenId }) => ({
        ...vault,
        functionName: "paymentLimitOf" as const,
        args: [token, kind, tokenId] as const,
      })),
      ...contracts.flatMap((token) =>
        [ERC1155_TOTAL, ERC1155_TRANSACTION].map((kind) => ({
          ...vault,
          functionName: "limitOf" as const,
          args: [token, kind, 0n] as const,
        })),
      ),
    ],
    allowFailure: false,
    deployless: true,
    // One call, as of balances (holdings.ts).
    batchSize: 0,
    blockNumber: BigInt(block),
  });
  const shared = read.slice(tokens.length);
  return [
    ...read.slice(0, tokens.length).map((limit) => lowest([limit])),
    ...contracts.map((_, index) => lowest(shared.slice(2 * index, 2 * index + 2))),
  ];
}

function lowest(limits: readonly (readonly [bigint, bigint])[]) {
  const min = (values: readonly bigint[]) => values.reduce((a, b) => (a < b ? a : b));
  return {
    maximum: min(limits.map(([maximum]) => maximum)),
    available: min(limits.map(([, available]) => available)),
  };
}

/** Whether a token refuses the vault's transfers. False if unknown, because the vault decides. */
export async function refusesTransfers(
  { client }: Endpoint,
  chain: ChainConfig,
  token: Token,
): Promise<boolean> {
  const vault = getAddress(chain.vault);
  const payment = { ...token, id: zeroHash, amount: 1n, to: vault };
  try {
    const probe = { abi: vaultAbi, functionName: "probe", args: [payment] } as const;
    await client.simulateContract({ ...probe, address: vault, account: vault });
    return false;
  } catch (error) {
    if (!(error instanceof BaseError)) return false;
    const reverted = error.walk((cause) => cause instanceof ContractFunctionRevertedError);
    const { data } = reverted instanceof ContractFunctionRevertedError ? reverted : {};
    return data?.errorName === "TransferFailed";
  }
}
