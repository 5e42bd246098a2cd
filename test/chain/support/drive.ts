/** Withdrawals on a stage, and rounds of its payer and watcher until they have ended. */
import { env } from "cloudflare:workers";
import type { Hex } from "viem";
import { expect } from "vitest";
import { USDC } from "../../../src/assets/asset.ts";
import { all, first, sql, uuid } from "../../../src/platform/sql.ts";
import { payRound } from "../../../src/custody/payer/pay-round.ts";
import { type Depositor, openStage, someone, type Stage, type StageOptions } from "./stage.ts";
import type { PayerContext } from "../../../src/custody/payer/payer-context.ts";

/** A user with credited funds. The vault already holds as much. */
export async function funded(stage: Stage, amount = 1_000n): Promise<Depositor> {
  const user = await stage.user();
  await stage.watch();
  await stage.mintUsdc(user.address, amount);
  await stage.mintUsdc(stage.vault, amount);
  await stage.confirm();
  await stage.watch();
  return user;
}

/** A new stage with a withdrawal of 300 USDC by a user who had 1,000. */
export async function queuedWithdrawal(options: StageOptions = {}) {
  const stage = await openStage(options);
  const user = await funded(stage);
  const to = someone();
  const { id, paymentId } = await stage.withdraw(user.userId, USDC, 300n, to);
  return { stage, user, to, id, paymentId };
}

/** Runs rounds until the withdrawal has ended, and returns its status. */
export async function drive(
  stage: Stage,
  id: string,
  extra: Partial<PayerContext> = {},
  rounds = 25,
): Promise<string | undefined> {
  let failures = 0;
  const { context } = await stage.payer(extra);
  // As in the Durable Object, a failed round is followed by one that starts with another node.
  const round = () =>
    payRound({ ...context, firstEndpoint: failures }).catch(() => void failures++);
  for (let made = 0; made < rounds; made++) {
    await round();
    await stage.mine();
    await stage.watch();
    const status = (await stage.withdrawal(id))?.status;
    if (status === "settled" || status === "failed") break;
    await all(
      env.DB,
      sql`UPDATE withdrawals SET not_before = NULL
        WHERE withdrawal_id = ${uuid(id)} AND status = 'queued'`,
    );
  }
  // At most until the transactions are confirmed, which the payer then ends.
  for (let more = 0; more < 4; more++) {
    await stage.mine();
    await stage.watch();
    await round();
    if ((await openTransactions(stage)).length === 0) break;
  }
  return (await stage.withdrawal(id))?.status;
}

/** Runs rounds until the withdrawal is settled. The vault must have paid it once. */
export async function expectPaidOnce(
  stage: Stage,
  { id, paymentId }: { id: string; paymentId: Hex },
): Promise<void> {
  expect(await drive(stage, id)).toBe("settled");
  expect(await stage.paidCount(paymentId)).toBe(1);
  await expectRest(stage);
}

/** No transaction is open, and each pending balance is the sum of the withdrawals in flight. */
export async function expectRest(stage: Stage): Promise<void> {
  expect(await openTransactions(stage)).toEqual([]);
  const pending = await first<{ differs: number }>(
    env.DB,
    sql`SELECT count(*) AS differs FROM accounts a
      WHERE a.kind = 'pending' AND a.owner IN (SELECT user_id FROM withdrawals
      WHERE chain = ${stage.chain.chain})
      AND a.balance <> coalesce((SELECT sum(w.amount) FROM withdrawals w
        WHERE w.user_id = a.owner AND w.asset = a.asset
        AND w.status IN ('queued', 'submitted')), 0)`,
  );
  expect(pending?.differs).toBe(0);
}

function openTransactions(stage: Stage): Promise<unknown[]> {
  return all(
    env.DB,
    sql`SELECT 1 FROM chain_transactions WHERE chain = ${stage.chain.chain} AND status = 'open'`,
  );
}
