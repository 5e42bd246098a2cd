/**
 * Deploys the contracts and the local tokens to a local chain, with limits that are never reached.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  type Abi,
  type Address,
  type Hex,
  encodeDeployData,
  concat,
  encodeFunctionData,
  getContractAddress,
  getCreate2Address,
  parseEther,
} from "viem";
import { type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { openLocalChain } from "./anvil-chain.ts";
import { LOCAL_VENUES, type LocalVenue, venueRecord } from "./local-venues.ts";

export type DeployOptions = {
  rpcUrl: string;
  /** Becomes the admin of both contracts. */
  deployer: Hex | PrivateKeyAccount;
  /** Gets PAYER_ROLE and SWEEPER_ROLE, and ether for gas if it has none. */
  operator: Address;
  /** Gets PAUSER_ROLE; the deployer by default. */
  pauser?: Address;
  /** Time lock of both contracts; 0 by default, so that local changes take effect at once. */
  timelockSecs?: number;
  /** An older vault. The new one pays no id that this one has paid. */
  predecessor?: Address;
};

export type Deployment = {
  chainId: number;
  vault: Address;
  factory: Address;
  usdc: Address;
  outcomeTokens: Record<LocalVenue, Address>;
  /** The first block with one of the contracts. Scans start there. */
  deployedAtBlock: bigint;
};

export type ArtifactName =
  | "Vault"
  | "Forwarder"
  | "DepositFactory"
  | "LocalUSDC"
  | "LocalOutcomeTokens"
  | "HostileToken"
  | "HostileRecipient";

/** `deployedBytecodeHash` is keccak256 of the deployed code, or null if the code has immutables. */
export type Artifact = { abi: Abi; bytecode: Hex; deployedBytecodeHash: Hex | null };

const ZERO: Address = "0x0000000000000000000000000000000000000000";
const ZERO_SALT: Hex = `0x${"00".repeat(32)}`;
/**
 * The CREATE2 deployer that every common chain has, anvil too: it deploys the rest of its input
 * with the first 32 bytes as salt. https://github.com/Arachnid/deterministic-deployment-proxy
 */
const CREATE2_DEPLOYER: Address = "0x4e59b44847b379578588920cA78FbF26c0B4956C";
/** 2^90 base units a day, which no local test reaches. */
const LOCAL_LIMIT = 1n << 90n;
const DEPLOY_GAS = 8_000_000n;
const CALL_GAS = 200_000n;
const KIND = { erc20: 0, erc1155Default: 2 } as const;

export function readArtifact(name: ArtifactName): Artifact {
  const file = join(import.meta.dirname, "../../contracts/artifacts", `${name}.json`);
  return JSON.parse(readFileSync(file, "utf8")) as Artifact;
}

/** Call data for the CREATE2 deployer, and the address that it gives the contract on any chain. */
export function deterministicDeployment(
  name: ArtifactName,
  args: readonly unknown[],
): { to: Address; data: Hex; address: Address } {
  const { abi, bytecode } = readArtifact(name);
  const code = encodeDeployData({ abi, bytecode, args });
  return {
    to: CREATE2_DEPLOYER,
    data: concat([ZERO_SALT, code]),
    address: getCreate2Address({ from: CREATE2_DEPLOYER, salt: ZERO_SALT, bytecode: code }),
  };
}

/** Deploys everything and resolves when it is mined. Throws if a transaction fails. */
export async function deployContracts(options: DeployOptions): Promise<Deployment> {
  const account =
    typeof options.deployer === "string" ? privateKeyToAccount(options.deployer) : options.deployer;
  const { client, send, deploy, deployAnywhere, untilMined } = await openDeployer(
    options.rpcUrl,
    account,
  );
  const admin = account.address;
  const timelock = options.timelockSecs ?? 0;
  const vault = await deployAnywhere("Vault", [
    0,
    admin,
    options.operator,
    options.pauser ?? admin,
    timelock,
    options.predecessor ?? ZERO,
  ]);
  const factory = await deployAnywhere("DepositFactory", [
    0,
    admin,
    options.operator,
    vault,
    timelock,
  ]);
  const usdc = await deploy("LocalUSDC", []);
  const tokens: [LocalVenue, Address][] = [];
  for (const venue of LOCAL_VENUES) tokens.push([venue, await deploy("LocalOutcomeTokens", [])]);
  const outcomeTokens = venueRecord(tokens);
  const setLimit = (token: Address, kind: number) =>
    send({
      to: vault,
      data: encodeFunctionData({
        abi: vaultAbi,
        functionName: "setLimit",
        args: [token, kind, 0n, LOCAL_LIMIT],
      }),
      gas: CALL_GAS,
    });
  await setLimit(usdc, KIND.erc20);
  for (const token of Object.values(outcomeTokens)) await setLimit(token, KIND.erc1155Default);
  if ((await client.getBalance({ address: options.operator })) === 0n) {
    await send({ to: options.operator, value: parseEther("10"), gas: CALL_GAS });
  }
  const deployedAtBlock = await untilMined();
  const chainId = await client.getChainId();
  return { chainId, vault, factory, usdc, outcomeTokens, deployedAtBlock };
}

/** Sends transactions together with our own nonces. One after the other would take a block each. */
async function openDeployer(rpcUrl: string, account: PrivateKeyAccount) {
  const { client, wallet, nextNonce } = await openLocalChain(rpcUrl, account, 50);
  let nonce = await nextNonce();
  const hashes: Hex[] = [];
  const send = async (transaction: { to?: Address; data?: Hex; value?: bigint; gas: bigint }) => {
    hashes.push(await wallet.sendTransaction({ ...transaction, nonce: nonce++ }));
  };
  return {
    client,
    send,
    deploy: async (name: ArtifactName, args: readonly unknown[]) => {
      const address = getContractAddress({ from: account.address, nonce: BigInt(nonce) });
      const { abi, bytecode } = readArtifact(name);
      await send({ data: encodeDeployData({ abi, bytecode, args }), gas: DEPLOY_GAS });
      return address;
    },
    /** The address depends on code and arguments alone, not on the deployer or the chain. */
    deployAnywhere: async (name: ArtifactName, args: readonly unknown[]) => {
      const { to, data, address } = deterministicDeployment(name, args);
      await send({ to, data, gas: DEPLOY_GAS });
      return address;
    },
    /** Returns the first block with one of the transactions. Throws if one failed. */
    untilMined: async (): Promise<bigint> => {
      const receipts = await Promise.all(
        hashes.map((hash) => client.waitForTransactionReceipt({ hash })),
      );
      const failed = receipts.find(({ status }) => status !== "success");
      if (failed) throw new Error(`deployment failed in ${failed.transactionHash}`);
      const blocks = receipts.map(({ blockNumber }) => blockNumber);
      return blocks.reduce((low, block) => (block < low ? block : low));
    },
  };
}
