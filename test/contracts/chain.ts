/**
 * What the contract tests stand on: one anvil, five accounts, and verbs that send, read and expect
 * reverts.
 */
import { randomBytes } from "node:crypto";
import {
  type Abi,
  type Address,
  BaseError,
  ContractFunctionRevertedError,
  type Hex,
  type Log,
  type TransactionReceipt,
  createTestClient,
  getAddress,
  http,
  parseEventLogs,
  publicActions,
  toHex,
  walletActions,
} from "viem";
import { ANVIL_CHAIN } from "../../scripts/stack/anvil-chain.ts";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { startAnvil } from "../../scripts/stack/anvil.ts";
import { type ArtifactName, readArtifact } from "../../scripts/stack/deploy-contracts.ts";

export type Chain = Awaited<ReturnType<typeof startChain>>;
export type ContractRef = { address: Address; abi: Abi };
type Call = readonly [to: ContractRef, functionName: string, args?: readonly unknown[]];
export type Event = { eventName: string; args: Record<string, unknown>; address: Address };
export type Result = { ok: boolean; gasUsed: bigint; events: Event[] };

/** Enough for any batch here, below what EIP-7825 allows a transaction. */
const GAS = 16_000_000n;

export const ZERO: Address = "0x0000000000000000000000000000000000000000";
export const KIND = {
  erc20: 0,
  erc1155: 1,
  erc1155Default: 2,
  erc1155Total: 3,
  erc20Transaction: 4,
  erc1155Transaction: 5,
  native: 255,
} as const;
export const STATE = { none: 0, paid: 1, failed: 2, voided: 3 } as const;
export const REASON = { alreadyDone: 1, short: 2, overLimit: 3, invalid: 4, refused: 5 } as const;

export const id32 = (): Hex => toHex(randomBytes(32));
export const someone = (): Address => getAddress(toHex(randomBytes(20)));

export async function startChain() {
  // Blocks are mined only on request: anvil's own miner runs beside its RPC, so that a block could
  // land after the evm_revert that should have undone it.
  const anvil = await startAnvil({ args: ["--no-mining"] });
  const client = createTestClient({
    mode: "anvil",
    chain: ANVIL_CHAIN,
    transport: http(anvil.rpcUrl),
    pollingInterval: 10,
  })
    .extend(publicActions)
    .extend(walletActions);
  const [admin, payer, pauser, sweeper, stranger] = (await client.getAddresses()) as [
    Address,
    Address,
    Address,
    Address,
    Address,
  ];

  /** Mines one block of what was sent. */
  async function mined(hashes: readonly Hex[]): Promise<TransactionReceipt[]> {
    await client.mine({ blocks: 1 });
    return Promise.all(hashes.map((hash) => client.getTransactionReceipt({ hash })));
  }

  async function deploy(name: ArtifactName, args: readonly unknown[] = []): Promise<ContractRef> {
    const { abi, bytecode } = readArtifact(name);
    const hash = await client.deployContract({
      abi,
      bytecode,
      args,
      account: admin,
      gas: GAS,
      chain: null,
    });
    const [receipt] = await mined([hash]);
    if (receipt?.status !== "success" || !receipt.contractAddress)
      throw new Error(`${name} did not deploy`);
    return { address: getAddress(receipt.contractAddress), abi };
  }

  const submit = (from: Address, [to, functionName, args = []]: Call, gas = GAS): Promise<Hex> =>
    client.writeContract({ ...to, functionName, args, account: from, gas, chain: null });

  /** Sends and mines; a reverted transaction is `ok: false`, not an exception. */
  async function trySend(
    from: Address,
    to: ContractRef,
    functionName: string,
    args: readonly unknown[] = [],
    gas = GAS,
  ): Promise<Result> {
    const [receipt] = await mined([await submit(from, [to, functionName, args], gas)]);
    if (receipt === undefined) throw new Error("no receipt");
    return {
      ok: receipt.status === "success",
      gasUsed: receipt.gasUsed,
      events: decode(receipt.logs),
    };
  }

  /** Sends several to one block, which is faster than a block each. */
  async function sendAll(from: Address, calls: readonly Call[]): Promise<void> {
    const hashes: Hex[] = [];
    for (const call of calls) hashes.push(await submit(from, call));
    const failed = (await mined(hashes)).findIndex(({ status }) => status !== "success");
    if (failed >= 0) throw new Error(`${calls[failed]?.[1]} reverted`);
  }

  async function send(
    from: Address,
    to: ContractRef,
    functionName: string,
    args: readonly unknown[] = [],
  ): Promise<Result> {
    const result = await trySend(from, to, functionName, args);
    if (!result.ok)
      throw new Error(`${functionName} reverted: ${await revertOf(from, to, functionName, args)}`);
    return result;
  }

  async function read<T>(
    to: ContractRef,
    functionName: string,
    args: readonly unknown[] = [],
  ): Promise<T> {
    return (await client.readContract({ ...to, functionName, args })) as T;
  }

  /** The name of the error that a call reverts with; null when it would succeed. */
  async function revertOf(
    from: Address,
    to: ContractRef,
    functionName: string,
    args: readonly unknown[] = [],
    gas = GAS,
  ): Promise<string | null> {
    try {
      await client.simulateContract({ ...to, functionName, args, account: from, gas });
      return null;
    } catch (error) {
      const cause =
        error instanceof BaseError
          ? error.walk((inner) => inner instanceof ContractFunctionRevertedError)
          : null;
      if (!(cause instanceof ContractFunctionRevertedError)) throw error;
      return cause.data?.errorName ?? cause.signature ?? "unknown";
    }
  }

  async function now(): Promise<bigint> {
    return (await client.getBlock()).timestamp;
  }

  /** Lets chain time pass, and mines a block so that reads see it. */
  async function pass(seconds: number): Promise<void> {
    await client.increaseTime({ seconds });
    await client.mine({ blocks: 1 });
  }

  return {
    client,
    admin,
    payer,
    pauser,
    sweeper,
    stranger,
    deploy,
    trySend,
    send,
    sendAll,
    read,
    revertOf,
    now,
    pass,
    stop: anvil.stop,
  };
}

const eventsAbi = [...vaultAbi, ...depositFactoryAbi].filter(
  (item) => item.type === "event",
) as Abi;

function decode(logs: Log[]): Event[] {
  return parseEventLogs({ abi: eventsAbi, logs }).map((log) => {
    const { eventName, args, address } = log as unknown as Event;
    return { eventName, args, address: getAddress(address) };
  });
}

export type Payment = {
  id: Hex;
  kind: number;
  token: Address;
  tokenId: bigint;
  amount: bigint;
  to: Address;
};
export type VaultWorld = Awaited<ReturnType<typeof vaultWorld>>;

const HUGE = 1n << 90n;

/**
 * A vault of its own, rich in USDC and outcome tokens. `limit` is the rolling limit of USDC and of
 * each outcome id. The contract's total and the caps per transaction are out of the way unless
 * `defaultCaps` leaves them unset.
 */
export async function vaultWorld(
  chain: Chain,
  options: {
    timelockSecs?: number;
    predecessor?: Address;
    limit?: bigint;
    rich?: bigint;
    defaultCaps?: boolean;
  } = {},
) {
  const { admin, payer, pauser } = chain;
  const vault = await chain.deploy("Vault", [
    0,
    admin,
    payer,
    pauser,
    options.timelockSecs ?? 0,
    options.predecessor ?? ZERO,
  ]);
  const usdc = await chain.deploy("LocalUSDC");
  const outcomes = await chain.deploy("LocalOutcomeTokens");
  const limit = options.limit ?? HUGE;
  const rich = options.rich ?? 1_000_000n;
  const setLimit = (token: ContractRef, kind: number, amount: bigint) =>
    [vault, "setLimit", [token.address, kind, 0n, amount]] as const;
  // Before the rolling limits: raising an unset cap afterwards would wait for the time lock.
  const caps = [
    setLimit(usdc, KIND.erc20Transaction, HUGE),
    setLimit(outcomes, KIND.erc1155Transaction, HUGE),
    setLimit(outcomes, KIND.erc1155Total, HUGE),
  ];
  await chain.sendAll(admin, [
    ...(options.defaultCaps === true ? [] : caps),
    setLimit(usdc, KIND.erc20, limit),
    setLimit(outcomes, KIND.erc1155Default, limit),
    [usdc, "mint", [vault.address, rich]],
    [outcomes, "mint", [vault.address, 7n, rich]],
  ]);

  const inUsdc = (amount: bigint, more: Partial<Payment> = {}): Payment => ({
    id: id32(),
    kind: KIND.erc20,
    token: usdc.address,
    tokenId: 0n,
    amount,
    to: someone(),
    ...more,
  });
  const inOutcome = (amount: bigint, more: Partial<Payment> = {}): Payment => ({
    id: id32(),
    kind: KIND.erc1155,
    token: outcomes.address,
    tokenId: 7n,
    amount,
    to: someone(),
    ...more,
  });

  async function batchArgs(payments: readonly Payment[]) {
    return [
      await chain.read<bigint>(vault, "nextBatchNo"),
      (await chain.now()) + 3_600n,
      payments,
    ] as const;
  }
  /** Pays the next batch and says what became of each payment, e.g. `["Paid", "Skipped:2"]`. */
  async function pay(...payments: Payment[]): Promise<string[]> {
    return outcomesOf(await chain.send(payer, vault, "pay", await batchArgs(payments)));
  }
  const state = async (payment: Payment | Hex) =>
    Number(await chain.read(vault, "state", [typeof payment === "string" ? payment : payment.id]));
  const usdcOf = (holder: Address) => chain.read<bigint>(usdc, "balanceOf", [holder]);
  const outcomeOf = (holder: Address, tokenId = 7n) =>
    chain.read<bigint>(outcomes, "balanceOf", [holder, tokenId]);

  /** A hostile token that the vault holds and may pay. */
  async function hostile(mode: string | null, held = 1_000_000n): Promise<ContractRef> {
    const token = await chain.deploy("HostileToken");
    await chain.sendAll(admin, [
      [token, "mint", [vault.address, held]],
      [vault, "setLimit", [token.address, KIND.erc20, 0n, HUGE]],
      ...(mode === null ? [] : [[token, "setMode", [await chain.read(token, mode)]] as const]),
    ]);
    return token;
  }
  async function recipient(mode: string): Promise<ContractRef> {
    const contract = await chain.deploy("HostileRecipient");
    await chain.send(admin, contract, "setMode", [await chain.read(contract, mode)]);
    return contract;
  }
  return {
    vault,
    usdc,
    outcomes,
    inUsdc,
    inOutcome,
    batchArgs,
    pay,
    state,
    usdcOf,
    outcomeOf,
    hostile,
    recipient,
  };
}

/** Retires `from` for `to`, which names it as its predecessor. For vaults without a time lock. */
export async function handOver(
  chain: Chain,
  from: ContractRef,
  to: ContractRef,
  assets: readonly { kind: number; token: Address; tokenId: bigint }[] = [],
): Promise<Result> {
  await chain.send(chain.admin, from, "scheduleMigration", [to.address]);
  await chain.send(chain.pauser, from, "pause");
  return chain.send(chain.admin, from, "migrate", [assets]);
}

/** The outcome of each payment in order. */
export function outcomesOf(result: Result): string[] {
  return result.events
    .filter(({ eventName }) => ["Paid", "Failed", "Skipped"].includes(eventName))
    .map(({ eventName, args }) =>
      eventName === "Skipped" ? `Skipped:${String(args["reason"])}` : eventName,
    );
}

/** A factory of its own that sweeps into `vault`. */
export async function deployFactory(
  chain: Chain,
  vault: ContractRef,
  timelockSecs = 0,
): Promise<ContractRef> {
  return chain.deploy("DepositFactory", [
    0,
    chain.admin,
    chain.sweeper,
    vault.address,
    timelockSecs,
  ]);
}
