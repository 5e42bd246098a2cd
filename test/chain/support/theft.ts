/** Payments from the vault that our payer has not made. */
import { type Address, encodeFunctionData, type Hex, keccak256 } from "viem";
import { type PrivateKeyAccount, privateKeyToAccount } from "viem/accounts";
import { vaultAbi } from "../../../contracts/abi/vault.ts";
import { someone, type Stage } from "./stage.ts";

export type Theft = {
  readonly id: Hex;
  readonly amount: bigint;
  readonly kind?: number;
  readonly token?: Address;
  readonly tokenId?: bigint;
  readonly to?: Address;
};

/** The payer's own account, of whose key a thief has a copy. */
export function payerAccount(stage: Stage): PrivateKeyAccount {
  return privateKeyToAccount(stage.settings.PAYER_KEYS[stage.chain.chain] as Hex);
}

/** Mines a batch with one payment, by default of USDC to someone. Returns its hash. */
export async function steal(
  stage: Stage,
  payment: Theft,
  { thief = payerAccount(stage), batch = 1n, nonce = 0 } = {},
): Promise<Hex> {
  const usdc = { kind: 0, token: stage.usdc, tokenId: 0n, to: someone() };
  const serializedTransaction = await thief.signTransaction({
    type: "eip1559",
    chainId: 31_337,
    to: stage.vault,
    data: encodeFunctionData({
      abi: vaultAbi,
      functionName: "pay",
      args: [batch, 2n ** 40n, [{ ...usdc, ...payment }]],
    }),
    nonce,
    gas: 1_000_000n,
    maxFeePerGas: 10n ** 11n,
    maxPriorityFeePerGas: 1n,
  });
  await stage.client.sendRawTransaction({ serializedTransaction });
  await stage.mine();
  return keccak256(serializedTransaction);
}
