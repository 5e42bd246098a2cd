/**
 * Signs the payer's transactions with the operator account. Every signed transaction is decoded and
 * compared with the request before it is used.
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
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import type { ChainConfig, Config } from "../platform/config.ts";
import type { Fees } from "./fees.ts";

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

export function operatorAccount(settings: Config, chain: ChainConfig): OperatorAccount {
  const key = settings.PAYER_KEYS[chain.chain];
  if (key === undefined)
    throw new Error(`Invalid settings: PAYER_KEYS has no key for ${chain.chain}`);
  const account = privateKeyToAccount(hexOf(key));
  return checkedAccount(account.address, chain.chain_id, (transaction) =>
    account.signTransaction(toEip1559(transaction, chain.chain_id)),
  );
}

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
  const signer = await recoverTransactionAddress({ serializedTransaction: eip1559Bytes(raw) });
  if (!isAddressEqual(signer, address)) throw new Error("the signer signed with another account");
}

/** viem brands serialized transactions by their type. */
function eip1559Bytes(raw: Hex): TransactionSerializedEIP1559 {
  if (!isEip1559(raw)) throw new Error("the signer did not return an EIP-1559 transaction");
  return raw;
}

function isEip1559(raw: Hex): raw is TransactionSerializedEIP1559 {
  return raw.startsWith("0x02");
}

function hexOf(text: string): Hex {
  return `0x${text.replace(/^0x/, "")}`;
}
