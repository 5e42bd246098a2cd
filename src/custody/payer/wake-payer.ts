/** Wakes payers and watchers. What to pay is in D1, so a lost or repeated message only delays. */
import { IN_FLIGHT } from "../../assets/withdrawal-status.ts";
import * as z from "zod";
import { alertRow } from "../../platform/alert.ts";
import { commitOrThrow, newGroup, NOW } from "../../platform/commit.ts";
import { config } from "../../platform/config.ts";
import { errorFields, log } from "../../platform/log.ts";
import { near } from "../../platform/near.ts";
import { all, sql } from "../../platform/sql.ts";
import { failpointOf } from "../../platform/failpoint.ts";

/** A message may be lost. Cron covers what it would have caused. */
const MESSAGE = z.object({ chain: z.string(), withdrawal_id: z.string() }).partial();
/** Suffix of the dead-letter queue's name in wrangler.toml. */
const DEAD_LETTER_SUFFIX = "-dead";
/** Age of a queued or submitted withdrawal after which cron logs that it wakes the payer again. */
const REPEAT_WAKE_UP_AFTER_MS = 30_000;

/** Queue consumer. Wakes each chain's payer once, no matter how many messages name it. */
export async function handleWithdrawalMessages(batch: MessageBatch, env: Env): Promise<void> {
  if (batch.queue.endsWith(DEAD_LETTER_SUFFIX)) return alertDeadLetters(batch, env);
  await failpointOf(env)?.("taken");
  const byChain = Map.groupBy(batch.messages, ({ body }) => MESSAGE.safeParse(body).data?.chain);
  for (const [chain, messages] of byChain) {
    try {
      // A message without a known chain can never succeed, so it is acknowledged. Cron covers it.
      if (chain !== undefined && config(env).CHAINS.some((known) => known.chain === chain))
        await near(env, env.PAYER, chain).wake(chain);
      else log("error", "payer.wake_up_without_chain", { messages: messages.length });
      for (const message of messages) message.ack();
    } catch (error) {
      log("warn", "payer.wake_up_failed", { chain, ...errorFields(error) });
      for (const message of messages) message.retry();
    }
  }
}

/** Cron task. Wakes every chain's watcher and payer, because messages and alarms may be lost. */
export async function wakeChains(env: Env): Promise<void> {
  const waiting = await all<{ chain: string; n: number }>(
    env.DB,
    sql`SELECT chain, count(*) AS n FROM withdrawals
      WHERE status ${IN_FLIGHT} AND updated_at < ${NOW} - ${REPEAT_WAKE_UP_AFTER_MS}
      GROUP BY chain`,
  );
  for (const { chain, n } of waiting)
    log("info", "payer.wake_up_repeated", { chain, withdrawals: n });
  const failed = (event: string, chain: string) => (error: unknown) => {
    log("warn", event, { chain, ...errorFields(error) });
    return true;
  };
  const failures = await Promise.all(
    config(env).CHAINS.flatMap(({ chain }) => [
      near(env, env.CHAIN_WATCHER, chain)
        .wake(chain)
        .catch(failed("watcher.wake_up_failed", chain)),
      near(env, env.PAYER, chain).wake(chain).catch(failed("payer.wake_up_failed", chain)),
    ]),
  );
  // A task that fails keeps the heartbeat back.
  if (failures.includes(true)) throw new Error("a watcher or payer could not be woken");
}

/** Raises an alert per dead letter. The withdrawal is in D1, and cron wakes its payer. */
async function alertDeadLetters(batch: MessageBatch, env: Env): Promise<void> {
  const group = newGroup();
  const alerts = batch.messages.map((message) => {
    const subject = MESSAGE.safeParse(message.body).data?.withdrawal_id ?? message.id;
    const detail = `the wake-up failed in ${message.attempts} deliveries`;
    return alertRow(group, "withdrawal_dead_letter", subject, detail);
  });
  await commitOrThrow(env.DB, group, alerts);
  log("error", "alert.withdrawal_dead_letter", { messages: batch.messages.length });
  batch.ackAll();
}
