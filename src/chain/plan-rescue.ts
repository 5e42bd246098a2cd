/** `withdrawals rescue`: the admin's calls and which is next. The service has no admin key. */
import { type Address, encodeFunctionData, getAddress, type Hex } from "viem";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { readHoldings } from "./holdings.ts";
import { revertOf } from "./revert-of.ts";
import { askAny, type Endpoint } from "./rpc.ts";
import { assetOfEvent, NATIVE_COIN, type Token } from "./token.ts";
import type { ChainConfig, Config } from "../platform/config.ts";

export type MistakenTransfer = {
  readonly chain: ChainConfig;
  readonly asset: Token | typeof NATIVE_COIN;
  readonly to: Address;
  readonly amount: bigint;
  /** The deposit address that received it. Undefined: the vault received it. */
  readonly from: { readonly address: Address; readonly salt: Hex } | undefined;
};

export type RescueStep = "grantRole" | "sweep" | "scheduleRescue" | "rescue";
type AdminCall = { readonly from: Address; readonly to: Address; readonly data: Hex };

export type RescuePlan = {
  readonly held: bigint;
  /** Unix seconds between which `rescue` succeeds. Null: it is not scheduled. */
  readonly executable: { readonly from: bigint; readonly until: bigint } | null;
  readonly next: RescueStep;
  /** Why the next call would revert now, or null if it would succeed. */
  readonly reason: string | null;
  readonly calls: Partial<Record<RescueStep, AdminCall>>;
};

export function planRescue(
  settings: Config,
  transfer: MistakenTransfer,
): Promise<RescuePlan | { readonly refused: string }> {
  const { chain, asset } = transfer;
  if (asset.kind !== NATIVE_COIN.kind && assetOfEvent(settings, chain, asset) !== undefined)
    return Promise.resolve({ refused: "The service credits that token, so it belongs to users." });
  return askAny(chain, (endpoint) => plan(endpoint, transfer));
}

async function plan(
  endpoint: Endpoint,
  transfer: MistakenTransfer,
): Promise<RescuePlan | { readonly refused: string }> {
  const { chain, asset, to, amount, from } = transfer;
  const vault = { address: getAddress(chain.vault), abi: vaultAbi } as const;
  const { client } = endpoint;
  if (
    asset.kind !== NATIVE_COIN.kind &&
    (await client.getCode({ address: asset.token })) === undefined
  )
    return { refused: `${asset.token} is not a contract.` };
  const held = await balanceOf(endpoint, asset, vault.address);
  const elsewhere = from === undefined ? 0n : await balanceOf(endpoint, asset, from.address);
  if (held + elsewhere < amount) {
    const where = from === undefined ? "The vault holds" : "The vault and the address hold";
    return { refused: `${where} ${held + elsewhere} of it, which is less than ${amount}.` };
  }
  const args = [asset, to, amount] as const;
  const [admin, scheduledAt, window, { timestamp: now }] = await Promise.all([
    client.readContract({ ...vault, functionName: "defaultAdmin" }),
    client.readContract({ ...vault, functionName: "rescueAt", args }),
    client.readContract({ ...vault, functionName: "EXECUTE_WINDOW" }),
    client.getBlock(),
  ]);
  const scheduled = scheduledAt > 0n && now <= scheduledAt + window;
  const toVault = (data: Hex): AdminCall => ({ from: admin, to: vault.address, data });
  const calls: RescuePlan["calls"] = {
    ...(held < amount && from !== undefined ? await sweepCalls(endpoint, transfer, from.salt) : {}),
    scheduleRescue: toVault(
      encodeFunctionData({ abi: vaultAbi, functionName: "scheduleRescue", args }),
    ),
    rescue: toVault(encodeFunctionData({ abi: vaultAbi, functionName: "rescue", args })),
  };
  const order = ["grantRole", "sweep", ...(scheduled ? [] : ["scheduleRescue" as const])] as const;
  const next = order.find((step) => calls[step] !== undefined) ?? "rescue";
  return {
    held,
    executable: scheduled ? { from: scheduledAt, until: scheduledAt + window } : null,
    next,
    reason: await reasonOf(endpoint, next, calls[next]),
    calls,
  };
}

function balanceOf(
  endpoint: Endpoint,
  asset: MistakenTransfer["asset"],
  holder: Address,
): Promise<bigint> {
  if (asset.kind === NATIVE_COIN.kind) return endpoint.client.getBalance({ address: holder });
  return readHoldings(endpoint, [{ token: asset, holder }]).then(([held = 0n]) => held);
}

/** The service sweeps only what it credits, so the factory's admin does it, to the vault only. */
async function sweepCalls(
  { client }: Endpoint,
  { chain, asset }: MistakenTransfer,
  salt: Hex,
): Promise<RescuePlan["calls"]> {
  const factory = { address: getAddress(chain.factory), abi: depositFactoryAbi } as const;
  const [admin, role] = await Promise.all([
    client.readContract({ ...factory, functionName: "defaultAdmin" }),
    client.readContract({ ...factory, functionName: "SWEEPER_ROLE" }),
  ]);
  const args = [role, admin] as const;
  const toFactory = (data: Hex): AdminCall => ({ from: admin, to: factory.address, data });
  const abi = depositFactoryAbi;
  const sweep = { ...asset, salt, minAmount: 0n };
  return {
    ...((await client.readContract({ ...factory, functionName: "hasRole", args }))
      ? {}
      : { grantRole: toFactory(encodeFunctionData({ abi, functionName: "grantRole", args })) }),
    sweep: toFactory(encodeFunctionData({ abi, functionName: "sweep", args: [[sweep]] })),
  };
}

/** Simulates a call. Returns the error that it reverts with, or null if it succeeds. */
async function reasonOf(
  { client }: Endpoint,
  step: RescueStep,
  call: AdminCall | undefined,
): Promise<string | null> {
  if (call === undefined) return null;
  try {
    await client.call({ account: call.from, to: call.to, data: call.data });
    return null;
  } catch (error) {
    const reason = revertOf(error, step);
    if (reason === undefined) throw error;
    return reason;
  }
}
