/**
 * `withdrawals rescue --send`: makes the admin's calls on the local stack, whose admin is a
 * published development account. Anywhere else the admin is a multisig.
 */
import { type Address, createPublicClient, createWalletClient, type Hex, http } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { ANVIL_ACCOUNT_KEYS } from "../stack/faucet.ts";
import type { OperatorResponse } from "../stack/operator-call.ts";

type Plan = {
  next: string;
  ready: boolean;
  calls: Record<string, { from: Address; to: Address; data: Hex }>;
};

/** More than any of the calls needs. An estimate could be too low once the block is mined. */
const GAS = 1_000_000n;
const RECEIPT_TIMEOUT_MS = 60_000;

/**
 * Makes one call after the other, each as the plan names it, until one has to wait or all are made.
 */
export async function sendRescue(
  rpcUrl: string,
  readPlan: () => Promise<OperatorResponse>,
): Promise<OperatorResponse> {
  const sent: Record<string, Hex> = {};
  for (;;) {
    const response = await readPlan();
    if (!response.ok) return response;
    // Safe cast: src/operator/rescue.ts makes the result.
    const plan = response.result as Plan;
    const call = plan.calls[plan.next];
    if (!plan.ready || call === undefined || plan.next in sent)
      return { ok: true, result: { ...plan, sent } };
    sent[plan.next] = await sendCall(rpcUrl, plan.next, call);
    if (plan.next === "rescue") return { ok: true, result: { rescued: true, sent } };
  }
}

async function sendCall(rpcUrl: string, name: string, call: Plan["calls"][string]): Promise<Hex> {
  const account = privateKeyToAccount(ANVIL_ACCOUNT_KEYS.deployer);
  if (call.from !== account.address) throw new Error(`--send has no key of the admin ${call.from}`);
  const transport = http(rpcUrl);
  const hash = await createWalletClient({ account, transport }).sendTransaction({
    chain: null,
    to: call.to,
    data: call.data,
    gas: GAS,
  });
  const { status } = await createPublicClient({
    transport,
    pollingInterval: 200,
  }).waitForTransactionReceipt({
    hash,
    timeout: RECEIPT_TIMEOUT_MS,
  });
  if (status !== "success") throw new Error(`${name} reverted in ${hash}`);
  return hash;
}
