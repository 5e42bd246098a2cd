/** Step 7: a withdrawal is paid on the chain, once. */
import { randomBytes } from "node:crypto";
import { type Hex, getAddress, parseEventLogs } from "viem";
import { localUsdcAbi } from "../stack/abi/local-usdc.ts";
import { heldBy, tokenOf } from "../stack/tokens.ts";
import { Problem, type Withdrawal, type WithdrawalTerms } from "../../packages/client/src/index.ts";
import { Unmet, duration, expectEqual, short, units } from "./narrator.ts";
import { WAIT_MS, type World } from "./world.ts";

const AMOUNT = 1_250_000_000n;

export async function withdraw(world: World): Promise<void> {
  const { tell, withdrawer } = world;
  const to_address = getAddress(`0x${randomBytes(20).toString("hex")}`);
  const terms: WithdrawalTerms = {
    client_withdrawal_id: `demo-${Date.now()}`,
    amount: AMOUNT,
    to_address,
  };
  const sentAt = performance.now();
  const queued = await tell.call(
    `POST /custody/withdraw ${units(AMOUNT)} USDC to ${short(to_address)}, id ${terms.client_withdrawal_id}`,
    () => withdrawer.custody.withdraw(terms),
    (it) => `202 withdrawal ${short(it.withdrawal_id)}, ${it.status}`,
  );
  const settled = await untilSettled(world, queued);
  tell.fact(`${units(AMOUNT)} USDC paid ${duration(performance.now() - sentAt)} after the request`);
  await checkOnChain(world, settled);

  const again = await tell.call(
    "POST /custody/withdraw, the same id and terms",
    () => withdrawer.custody.withdraw(terms),
    (it) => `202 withdrawal ${short(it.withdrawal_id)}, ${it.status}`,
  );
  expectEqual("the repeated withdrawal", again.withdrawal_id, queued.withdrawal_id);
  const refused = await tell.call(
    "POST /custody/withdraw, the same id and other terms",
    () =>
      withdrawer.custody
        .withdraw({ ...terms, amount: AMOUNT + 1n })
        .catch((error: unknown) => error),
    (error) => (error instanceof Problem ? `${error.status} ${error.code}` : String(error)),
  );
  if (
    !(refused instanceof Problem) ||
    refused.status !== 409 ||
    refused.code !== "client_withdrawal_id_reused"
  ) {
    throw new Unmet(
      "409 client_withdrawal_id_reused",
      refused instanceof Error ? refused.message : refused,
    );
  }
}

async function untilSettled(
  { tell, taker, withdrawer }: World,
  queued: Withdrawal,
): Promise<Withdrawal> {
  let status: string = queued.status;
  const settled = await tell.wait(
    "the vault has paid, the payment is confirmed",
    { timeoutMs: WAIT_MS, progress: () => status },
    async () => {
      const now = await withdrawer.custody.withdrawal({ withdrawal_id: queued.withdrawal_id });
      status = now.status;
      if (now.status === "failed") throw new Unmet("the withdrawal to settle", now);
      return now.status === "settled" ? now : null;
    },
  );
  const mine = ({ withdrawal_id }: Withdrawal) => withdrawal_id === queued.withdrawal_id;
  await tell.wait("the taker's stream reports it", { timeoutMs: WAIT_MS }, () =>
    taker.account.find("withdrawal.settled", mine),
  );
  const types = [];
  for (const type of ["withdrawal.queued", "withdrawal.submitted", "withdrawal.settled"] as const) {
    const event = await taker.account.find(type, mine);
    if (event === null) throw new Unmet(`${type} on the taker's stream`, types);
    types.push(type);
  }
  tell.event(types.join(", "));
  return settled;
}

async function checkOnChain({ tell, faucet, stack }: World, withdrawal: Withdrawal): Promise<void> {
  const hash = withdrawal.transaction_hash;
  if (hash === null) throw new Unmet("a settled withdrawal to name its transaction", withdrawal);
  const receipt = await tell.call(
    `eth_getTransactionReceipt ${short(hash)}`,
    () => faucet.client.getTransactionReceipt({ hash: hash as Hex }),
    (it) => `${it.status} in block ${it.blockNumber}`,
  );
  expectEqual("the receipt's status", receipt.status, "success");
  expectEqual(
    "the called contract",
    getAddress(receipt.to ?? "0x"),
    getAddress(stack.deployment.vault),
  );
  const transfers = parseEventLogs({
    abi: localUsdcAbi,
    eventName: "Transfer",
    logs: receipt.logs,
  });
  const payment = transfers.find(
    ({ address, args }) =>
      getAddress(address) === getAddress(stack.deployment.usdc) &&
      getAddress(args.to) === getAddress(withdrawal.to_address),
  );
  expectEqual("the transferred amount", payment?.args.value, withdrawal.amount);
  const usdc = tokenOf(stack.deployment, null);
  const held = await heldBy(faucet.client, usdc, getAddress(withdrawal.to_address));
  expectEqual("what the address holds", held, withdrawal.amount);
  tell.note(
    `the address holds ${units(held)} USDC, sent by the vault ${short(stack.deployment.vault)}`,
  );
}
