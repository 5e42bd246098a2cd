/** Lets all work finish after the last fault, with only what an operator and cron would do. */
import { setTimeout as sleep } from "node:timers/promises";
import { type Faults, order, serviceStatus } from "./faults.ts";
import { note, type Person, type World } from "./world.ts";

/**
 * The longest wait of the service. A withdrawal that the vault cannot pay waits 15 s, several
 * times.
 */
const PATIENCE_MS = 180_000;
const LOOK_EVERY_MS = 1_000;
/** Cron runs once a minute. This runs it more often to save time. */
const CRON_EVERY_LOOKS = 5;

export async function comeToRest(world: Faults): Promise<void> {
  const { stack, chain, proxies, people } = world;
  for (const proxy of proxies) proxy.fail(null);
  await order(world, "withdrawals resume");
  for (const { email } of people) await order(world, "user unfreeze", { email });
  for (const person of people) await closeAll(world, person);
  const deadline = Date.now() + PATIENCE_MS;
  for (let looks = 0; ; looks++) {
    await chain.sendAgain();
    if (looks % CRON_EVERY_LOOKS === 0) await stack.runCron();
    const left = await unfinished(people);
    if (left.length === 0) break;
    if (Date.now() > deadline)
      throw new Error(
        `not at rest after ${PATIENCE_MS / 1_000} s: ${left.slice(0, 10).join("; ")}`,
      );
    await sleep(LOOK_EVERY_MS);
  }
  await untilNothingIsOpen(world, deadline);
}

async function closeAll({ tally }: World, { client }: Person): Promise<void> {
  await client.rfq.saveProtection({ window_secs: 1, max_matches: null, cooldown_secs: null });
  await client.rfq.resetProtection();
  for (const { withdrawal_id } of await client.custody
    .withdrawals({ status: "awaiting_approval" })
    .all())
    await client.custody
      .cancelWithdrawal({ withdrawal_id })
      .catch((error: unknown) => note(tally, "cancel a withdrawal", error));
  await client.rfq.cancelQuotes();
  for (const { request_id } of await client.rfq.myRequests().all()) {
    await client.rfq
      .cancelRequest({ request_id })
      .catch((error: unknown) => note(tally, "cancel", error));
  }
}

async function unfinished(people: readonly Person[]): Promise<string[]> {
  const left = await Promise.all(
    people.map(async ({ email, client }) => {
      const statuses = ["queued", "awaiting_approval", "submitted"] as const;
      const [confirming, ...withdrawals] = await Promise.all([
        client.custody.deposits({ status: "confirming" }).all(),
        ...statuses.map((status) => client.custody.withdrawals({ status }).all()),
      ]);
      return [
        ...withdrawals
          .flat()
          .map((one) => `${email}: withdrawal ${one.withdrawal_id} is ${one.status}`),
        ...confirming.map((one) => `${email}: deposit ${one.transaction_hash} is ${one.status}`),
      ];
    }),
  );
  return left.flat();
}

/**
 * Includes the payer's transactions. Enough blocks are mined that no deposit is still in flight.
 */
async function untilNothingIsOpen(world: Faults, deadline: number): Promise<void> {
  const { chain, confirmations } = world;
  const target = Number(await chain.client.getBlockNumber()) + confirmations;
  for (;;) {
    const { chains } = await serviceStatus(world);
    if (chains.every((one) => one.open_transactions === 0 && one.confirmed_block >= target)) return;
    if (Date.now() > deadline)
      throw new Error(`the chain does not come to rest: ${JSON.stringify(chains)}`);
    await sleep(LOOK_EVERY_MS);
  }
}
