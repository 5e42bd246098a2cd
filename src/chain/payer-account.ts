/**
 * The account that pays on a chain: a remote signer if configured, else a key in secrets. Every
 * signed transaction is decoded and compared with the request before it is used.
 */
import {
  type Address,
  getAddress,
  type Hex,
  isAddressEqual,
  keccak256,
  parseTransaction,
  recoverTransactionAddress,
  type TransactionSerializedEIP1559,
  createClient,
  formatTransactionRequest,
  isHex,
  numberToHex,
} from "viem";
import type { ChainConfig, Config } from "../platform/config.ts";
import { privateKeyToAccount } from "viem/accounts";
import type { Fees } from "./fees.ts";
import { rpcTransport } from "./rpc-transport.ts";

export function payerAccount(settings: Config, chain: ChainConfig): OperatorAccount {
  const { chain: name, chain_id } = chain;
  const signer = settings.PAYER_SIGNERS[name];
  if (signer !== undefined) {
    const values = settings.PAYER_SIGNER_HEADERS[name] ?? {};
    const headers = Object.fromEntries(
      signer.headers.map((header) => [header, values[header] ?? ""]),
    );
    return remoteAccount(
      { url: signer.url, address: getAddress(signer.address), headers },
      chain_id,
    );
  }
  const key = settings.PAYER_KEYS[name];
  if (key === undefined) throw new Error(`Invalid settings: PAYER_KEYS has no key for ${name}`);
  const account = privateKeyToAccount(`0x${key.replace(/^0x/, "")}`);
  return checkedAccount(account.address, chain_id, (transaction) =>
    account.signTransaction(toEip1559(transaction, chain_id)),
  );
}

/** Kept by settings, because an address takes a multiplication on the curve. */
const addresses = new WeakMap<Config, readonly Address[]>();

/** Addresses of the accounts that pay, of all chains that have one. */
export function payerAddresses(settings: Config): readonly Address[] {
  const { CHAINS, PAYER_SIGNERS, PAYER_KEYS } = settings;
  const paying = CHAINS.filter(({ chain }) => chain in PAYER_SIGNERS || chain in PAYER_KEYS);
  const known =
    addresses.get(settings) ?? paying.map((chain) => payerAccount(settings, chain).address);
  addresses.set(settings, known);
  return known;
}

export type Unsigned = {
  readonly nonce: number;
  readonly to: Address;
  readonly data: Hex;
  readonly gasLimit: bigint;
  readonly fees: Fees;
};
export type Signed = { readonly raw: Hex; readonly hash: Hex };

export type OperatorAccount = {
  readonly address: Address;
  readonly sign: (transaction: Unsigned) => Promise<Signed>;
  /** Whether the bytes are the transaction, signed by this account. */
  readonly verify: (raw: Hex, transaction: Unsigned) => Promise<boolean>;
};

/** Wraps a signer and throws unless it signed the requested transaction with this account. */
export function checkedAccount(
  address: Address,
  chainId: number,
  sign: (transaction: Unsigned) => Promise<Hex>,
): OperatorAccount {
  return {
    address: getAddress(address),
    sign: async (transaction) => {
      const raw = await sign(transaction);
      await checkSigned(raw, transaction, address, chainId);
      return { raw, hash: keccak256(raw) };
    },
    verify: (raw, transaction) =>
      checkSigned(raw, transaction, address, chainId).then(
        () => true,
        () => false,
      ),
  };
}

export function toEip1559(transaction: Unsigned, chainId: number) {
  return {
    type: "eip1559" as const,
    chainId,
    nonce: transaction.nonce,
    to: transaction.to,
    data: transaction.data,
    value: 0n,
    gas: transaction.gasLimit,
    maxFeePerGas: transaction.fees.maxFee,
    maxPriorityFeePerGas: transaction.fees.priorityFee,
  };
}

async function checkSigned(
  raw: Hex,
  asked: Unsigned,
  address: Address,
  chainId: number,
): Promise<void> {
  const got = parseTransaction(raw);
  const same =
    got.type === "eip1559" &&
    got.chainId === chainId &&
    (got.nonce ?? 0) === asked.nonce &&
    got.to !== undefined &&
    got.to !== null &&
    isAddressEqual(got.to, asked.to) &&
    (got.data ?? "0x") === asked.data.toLowerCase() &&
    (got.value ?? 0n) === 0n &&
    got.gas === asked.gasLimit &&
    got.maxFeePerGas === asked.fees.maxFee &&
    (got.maxPriorityFeePerGas ?? 0n) === asked.fees.priorityFee &&
    (got.accessList ?? []).length === 0;
  if (!same) throw new Error("the signer returned another transaction than requested");
  // Safe cast: viem brands serialized transactions by their type, which is this one.
  const serializedTransaction = raw as TransactionSerializedEIP1559;
  const signer = await recoverTransactionAddress({ serializedTransaction });
  if (!isAddressEqual(signer, address)) throw new Error("the signer signed with another account");
}

/** `headers` authenticate the service, such as `authorization`. */
export function remoteAccount(
  signer: { url: string; address: Address; headers?: Readonly<Record<string, string>> },
  chainId: number,
): OperatorAccount {
  const { headers = {} } = signer;
  const transport = rpcTransport(signer.url, "patient", { retryCount: 1, headers });
  const client = createClient({ transport });
  return checkedAccount(signer.address, chainId, async (transaction) => {
    const request = formatTransactionRequest(toEip1559(transaction, chainId));
    const params = [{ ...request, from: signer.address, chainId: numberToHex(chainId) }];
    const result: unknown = await client.request({
      method: "eth_signTransaction",
      params,
    } as never);
    // Web3Signer returns the bytes. geth and others return `{ raw, tx }`.
    const raw: unknown =
      typeof result === "object" && result !== null && "raw" in result ? result.raw : result;
    if (!isHex(raw)) throw new Error("the signer did not return signed bytes");
    return raw;
  });
}
