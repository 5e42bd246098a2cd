import { createExecutionContext, createMessageBatch, getQueueResult } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { handleWithdrawalMessages } from "../../src/custody/payer/wake-payer.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { answerAlert } from "../support/pager.ts";

const message = (body: unknown) => ({ id: uuidv7(), timestamp: new Date(), attempts: 5, body });

it("acknowledges repeated and invalid messages with the rest of the batch", async () => {
  const one = message({ withdrawal_id: uuidv7(), chain: "local" });
  const messages = [
    one,
    { ...one, id: uuidv7() },
    message({ withdrawal_id: uuidv7(), chain: "elsewhere" }),
    message("poison"),
    message(null),
  ];
  const batch = createMessageBatch("rfq-custody-withdrawals", messages);
  await handleWithdrawalMessages(batch, env);
  const result = await getQueueResult(batch, createExecutionContext());
  expect(result.explicitAcks.toSorted()).toEqual(messages.map(({ id }) => id).toSorted());
  expect(result.retryMessages).toEqual([]);
});

it("raises one alert per withdrawal for dead letters", async () => {
  const id = uuidv7();
  for (let delivery = 0; delivery < 2; delivery++) {
    const batch = createMessageBatch("rfq-custody-withdrawals-dead", [
      message({ withdrawal_id: id, chain: "local" }),
    ]);
    await handleWithdrawalMessages(batch, env);
    expect((await getQueueResult(batch, createExecutionContext())).ackAll).toBe(true);
  }
  expect(
    await all(
      env.DB,
      sql`SELECT 1 FROM alerts WHERE kind = 'withdrawal_dead_letter' AND subject = ${id}`,
    ),
  ).toHaveLength(1);
  await answerAlert("withdrawal_dead_letter", id);
});
