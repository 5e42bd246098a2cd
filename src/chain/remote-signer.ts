/**
 * An operator account whose key is held by a remote signer. It calls `eth_signTransaction` over
 * JSON-RPC, which Web3Signer and KMS bridges provide. operator-account.ts checks the result.
 */
import { type Address, createClient, type Hex, isHex, numberToHex } from "viem";
import { checkedAccount, type OperatorAccount, type Unsigned } from "./operator-account.ts";
import { rpcTransport } from "./rpc-transport.ts";

export type RemoteSigner = {
  readonly url: string;
  readonly address: Address;
  /** Headers that authenticate the service, such as `authorization`. */
  readonly headers?: Readonly<Record<string, string>>;
};

export function remoteAccount(signer: RemoteSigner, chainId: number): OperatorAccount {
  const client = createClient({
    transport: rpcTransport(signer.url, "patient", {
      retryCount: 1,
      fetchOptions: { headers: { ...signer.headers } },
    }),
  });
  return checkedAccount(signer.address, chainId, async (transaction) => {
    const result: unknown = await client.request({
      method: "eth_signTransaction",
      params: [toRpc(transaction, signer.address, chainId)],
    } as never);
    return rawOf(result);
  });
}

function toRpc(transaction: Unsigned, from: Address, chainId: number) {
  return {
    type: "0x2",
    from,
    to: transaction.to,
    data: transaction.data,
    value: "0x0",
    nonce: numberToHex(transaction.nonce),
    gas: numberToHex(transaction.gasLimit),
    maxFeePerGas: numberToHex(transaction.fees.maxFee),
    maxPriorityFeePerGas: numberToHex(transaction.fees.priorityFee),
    chainId: numberToHex(chainId),
  };
}

/** Web3Signer returns the bytes. geth and others return `{ raw, tx }`. */
function rawOf(result: unknown): Hex {
  const raw: unknown =
    typeof result === "object" && result !== null && "raw" in result ? result.raw : result;
  if (!isHex(raw)) throw new Error("the signer did not return signed bytes");
  return raw;
}
