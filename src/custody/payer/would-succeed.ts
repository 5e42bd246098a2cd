/** Simulates a call of the operator account before it is signed. */
import { clearAlert, raiseAlert } from "../../platform/alert.ts";
import { describe } from "../../chain/rpc.ts";
import { isNodeError } from "../../chain/rpc-transport.ts";
import type { Call } from "../../chain/vault-calls.ts";
import type { HeadView } from "./payer-context.ts";

/**
 * Simulates a call. Raises an alert if it would revert as a whole, for example because the vault is
 * paused or the operator account has lost its role. Payments, sweeps and voids have alerts of their
 * own, so that the success of one does not clear the alert of another. Throws if no node responds.
 */
export async function wouldSucceed(
  context: HeadView,
  kind: "pay" | "sweep" | "void",
  call: Call,
): Promise<boolean> {
  const { chain } = context.chain;
  const subject = refusalSubject(chain, kind);
  try {
    await context.endpoint.client.call({
      account: context.account.address,
      to: call.to,
      data: call.data,
      gas: call.gasLimit,
    });
    await clearAlert(context.db, "payment_refused", subject);
    return true;
  } catch (error) {
    if (!isNodeError(error)) throw error;
    await raiseAlert(context.db, "payment_refused", subject, describe(error));
    return false;
  }
}

/** Subject of the alert `payment_refused`. */
export function refusalSubject(chain: string, kind: "pay" | "sweep" | "void"): string {
  return kind === "pay" ? chain : `${chain}:${kind}`;
}
