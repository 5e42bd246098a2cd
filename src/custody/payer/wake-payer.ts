/** The queue is a doorbell: a message says that a chain's payer has something to look at. D1 is the record. */
import { alertRow } from "../../chain/alert.ts";
import { commit, newGroup, NOW } from "../../platform/commit.ts";
import { config } from "../../platform/config.ts";
import { errorFields, log } from "../../platform/log.ts";
import { all, sql } from "../../platform/sql.ts";
import { failpointOf } from "../../platform/failpoint.ts";

/** Suffix of the dead-letter queue's name in wrangler.toml. */
const DEAD_LETTER_SUFFIX = "-dead";
/** A queued withdrawal this old has had its chance; cron rings for it. */
const REPEAT_WAKE_UP_AFTER_MS = 30_000;

/** One wake-up per chain, however many messages; a message that came twice or late rings once more, which harms nobody. */
export async function handleWithdrawalMessages(
  batch: MessageBatch<unknown>,
  env: Env,
): Promise<void> {
  if (batch.queue.endsWith(DEAD_LETTER_SUFFIX)) return alertDeadLetters(batch, env);
  await failpointOf(env)?.("taken");
  const byChain = Map.groupBy(batch.messages, (message) => chainOf(message.body));
  for (const [chain, messages] of byChain) {
    try {
      // A message that names no chain of ours can never be delivered: cron finds what it was about.
      if (chain !== undefined && config(env).CHAINS.some((known) => known.chain === chain))
        await env.PAYER.getByName(chain).wake(chain);
      else log("error", "wake_up.unknown_chain", { messages: messages.length });
      for (const message of messages) message.ack();
    } catch (error) {
      log("warn", "wake_up.failed", { chain, ...errorFields(error) });
      for (const message of messages) message.retry();
    }
  }
}

/** Cron: every chain's watcher and payer run, whatever was lost; queued withdrawals ring again. */
export async function wakeChains(env: Env): Promise<void> {
  const waiting = await all<{ chain: string; n: number }>(
    env.DB,
    sql`SELECT chain, count(*) AS n FROM withdrawals WHERE status IN ('queued', 'submitted') AND updated_at < ${NOW} - ${REPEAT_WAKE_UP_AFTER_MS} GROUP BY chain`,
  );
  for (const { chain, n } of waiting) log("info", "wake_up.again", { chain, withdrawals: n });
  await Promise.all(
    config(env).CHAINS.flatMap(({ chain }) => [
      env.CHAIN_WATCHER.getByName(chain)
        .wake(chain)
        .catch((error: unknown) =>
          log("warn", "watcher.not_woken", { chain, ...errorFields(error) }),
        ),
      env.PAYER.getByName(chain)
        .wake(chain)
        .catch((error: unknown) =>
          log("warn", "payer.not_woken", { chain, ...errorFields(error) }),
        ),
    ]),
  );
}

/** Dead letters alert and are done with: the withdrawal itself is safe in D1, and cron rings for it. */
async function alertDeadLetters(batch: MessageBatch<unknown>, env: Env): Promise<void> {
  const group = newGroup();
  const alerts = batch.messages.map((message) => {
    const subject = withdrawalOf(message.body) ?? message.id;
    return alertRow({
      kind: "withdrawal_dead_letter",
      subject,
      detail: `delivered ${message.attempts} times without success`,
      at: group.at,
    });
  });
  const result = await commit(env.DB, group, alerts);
  if (!result.committed) throw new Error("dead letters were not recorded", { cause: result.cause });
  log("error", "alert.withdrawal_dead_letter", { messages: batch.messages.length });
  batch.ackAll();
}

function chainOf(body: unknown): string | undefined {
  return typeof body === "object" &&
    body !== null &&
    "chain" in body &&
    typeof body.chain === "string"
    ? body.chain
    : undefined;
}

function withdrawalOf(body: unknown): string | undefined {
  return typeof body === "object" &&
    body !== null &&
    "withdrawal_id" in body &&
    typeof body.withdrawal_id === "string"
    ? body.withdrawal_id
    : undefined;
}
