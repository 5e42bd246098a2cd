/**
 * Computes the id under which the vault pays a withdrawal at most once. It is public on the chain,
 * so it takes a key: else who learns a user's id could find their payments by guessing each
 * client_withdrawal_id. The key derives from ADDRESS_KEY, which never changes: after a restore the
 * same withdrawal must get the same id again, or it could be paid twice.
 */
import { concat, type Hex, stringToBytes, toBytes } from "viem";
import { markOf, type Secret } from "../auth/mark.ts";

/** The id as `0x` hex. */
export function paymentId(secret: Secret, userId: string, clientWithdrawalId: string): Hex {
  const named = bytesOf(userId, clientWithdrawalId);
  return `0x${markOf(secret, "payment ids v2", named, 32).toString("hex")}`;
}

function bytesOf(userId: string, clientWithdrawalId: string): Uint8Array {
  const user = toBytes(`0x${userId.replaceAll("-", "").toLowerCase()}`);
  if (user.length !== 16) throw new Error("a user id must have 16 bytes");
  return concat([user, stringToBytes(clientWithdrawalId)]);
}
