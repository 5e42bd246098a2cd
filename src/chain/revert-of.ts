import { type BaseError, ContractFunctionRevertedError, getContractError } from "viem";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import { describe } from "./rpc.ts";

const ABI = [...vaultAbi, ...depositFactoryAbi];

/**
 * The contract's error with which a simulated call reverts, such as `NothingScheduled()`. Undefined
 * if it did not revert.
 */
export function revertOf(error: unknown, functionName: string): string | undefined {
  // Safe cast: viem wraps any error of a call.
  const wrapped = getContractError(error as BaseError, { abi: ABI, functionName, args: [] });
  const reverted = wrapped.walk((cause) => cause instanceof ContractFunctionRevertedError);
  if (!(reverted instanceof ContractFunctionRevertedError)) return undefined;
  const { data } = reverted;
  return data === undefined ? describe(error) : `${data.errorName}(${(data.args ?? []).join()})`;
}
