/** Computes the id under which the vault pays a withdrawal at most once. */
import { concat, type Hex, keccak256, stringToBytes, toBytes } from "viem";

/** keccak256(16 bytes of the user id ‖ UTF-8 of `client_withdrawal_id`), as `0x` hex. */
export function paymentId(userId: string, clientWithdrawalId: string): Hex {
  const user = toBytes(`0x${userId.replaceAll("-", "").toLowerCase()}`);
  if (user.length !== 16) throw new Error("a user id must have 16 bytes");
  return keccak256(concat([user, stringToBytes(clientWithdrawalId)]));
}
