import { concat, type Hex, keccak256, stringToBytes, toBytes } from "viem";

/** The id that the vault pays at most once: keccak256(user id bytes ‖ UTF-8 of the client's own id), 32 bytes of hex. */
export function paymentId(userId: string, clientWithdrawalId: string): Hex {
  const user = toBytes(`0x${userId.replaceAll("-", "").toLowerCase()}`);
  if (user.length !== 16) throw new Error("a user id has 16 bytes");
  return keccak256(concat([user, stringToBytes(clientWithdrawalId)]));
}
