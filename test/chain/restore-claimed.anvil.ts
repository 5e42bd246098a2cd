/**
 * Restores after which the database uses a paid id, or its funds, in another way: its owner
 * ordered, cancelled or waited after the old database was back, and before the payer halted.
 */
import { env } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { USDC } from "../../src/assets/asset.ts";
import { paymentId } from "../../src/chain/payment-id.ts";
import { acceptPayment } from "../../src/custody/accept-payment.ts";
import { cancelWithdrawal } from "../../src/custody/cancel-withdrawal.ts";
import { expireApprovals } from "../../src/custody/expire-approvals.ts";
import { recordResume, recordWithdrawalCommand } from "../../src/custody/operator-commands.ts";
import { restorePayments } from "../../src/custody/payer/restore-payments.ts";
import type { WithdrawalRecord } from "../../src/custody/payer/withdrawal-record.ts";
import { trackedHoldings } from "../../src/reconcile/tracked-holdings.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { settings } from "../support/http.ts";
import { edit } from "../support/ledger.ts";
import { newKey } from "../support/users.ts";
import { funded, queuedWithdrawal } from "./support/drive.ts";
import { type Depositor, openStage, someone, type Stage } from "./support/stage.ts";
import { steal } from "./support/theft.ts";
import { itDeeper } from "../support/depth.ts";

type Lost = Pick<WithdrawalRecord, "paymentId" | "withdrawalId" | "clientWithdrawalId" | "to">;

/** The record of a withdrawal of 300 USDC, which the payer saved before it signed. */
function recordOf({ userId }: Depositor, lost: Lost): WithdrawalRecord {
  const jobId = crypto.randomUUID();
  const to = lost.to.slice(2).toLowerCase();
  return { ...lost, to, jobId, userId, asset: USDC, amount: "300", createdAt: Date.now() };
}

/** A withdrawal of 300 USDC that the vault paid in the lost time. */
async function lostWithdrawal(stage: Stage, user: Depositor): Promise<WithdrawalRecord> {
  const id = paymentId(stage.settings, user.userId, "lost-1");
  const to = someone();
  await steal(stage, { id, amount: 300n, to });
  return recordOf(user, {
    paymentId: id,
    withdrawalId: crypto.randomUUID(),
    clientWithdrawalId: "lost-1",
    to,
  });
}

const restore = (stage: Stage, ...records: WithdrawalRecord[]) =>
  restorePayments(
    stage.watcher,
    async () => new Map(records.map((record) => [record.paymentId, record])),
  );

/** The watcher reads the payment, and the payer halts because the vault is ahead. */
async function halted(stage: Stage) {
  await stage.confirm();
  await stage.watch();
  const payer = await stage.payer();
  await payer.round();
  expect(await payer.round()).toEqual({ status: "halted" });
  return payer;
}

async function rounds(stage: Stage, payer: Awaited<ReturnType<Stage["payer"]>>): Promise<void> {
  for (let round = 0; round < 4; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
  }
}

const fail = (id: string) =>
  recordWithdrawalCommand(env.DB, { kind: "fail", withdrawalId: id, actor: "operator:test" });

const cancel = ({ actor }: Depositor, id: string) =>
  cancelWithdrawal(env.DB, { actor, id: { withdrawal_id: id }, ip: undefined });

/** As if the order had waited from the beginning, which its MAC does not say. */
const waits = (id: string, until = 4_102_444_800_000) => {
  waited.add(id);
  return all(
    env.DB,
    sql`UPDATE withdrawals SET status = 'awaiting_approval', approval_expires_at = ${until}
      WHERE withdrawal_id = ${uuid(id)}`,
  );
};
const waited = new Set<string>();

// Other files reconcile the same database.
afterEach(async () => {
  for (const id of waited)
    await edit(env.DB, "withdrawals", [
      sql`UPDATE withdrawals SET approval_expires_at = NULL WHERE withdrawal_id = ${uuid(id)}`,
    ]);
  waited.clear();
});

const differences = async (stage: Stage) =>
  (
    await reconcile(env.DB, {
      macKeys: settings(),
      chains: [stage.chain.chain],
      holdingsAt: trackedHoldings(env.DB, stage.settings),
      full: true,
    })
  ).differences;

const accept = (stage: Stage, id: string) =>
  acceptPayment(env.DB, stage.settings, {
    paymentId: id,
    kind: "loss",
    reason: "incident 7",
    actor: "operator:test",
  });

const balanceOf = ({ userId }: Depositor) => readBalance(env.DB, userId, USDC);

it("debits a lost withdrawal whose owner ordered less under its id", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const lost = await lostWithdrawal(stage, user);
  const again = await stage.withdraw(user.userId, USDC, 1n, someone(), "lost-1");
  const payer = await halted(stage);
  expect(await restore(stage)).toMatchObject({
    unresolved: [{ payment_id: lost.paymentId }],
    paying: false,
  });
  expect(await restore(stage, lost)).toMatchObject({ rebuilt: 1, unresolved: [], paying: true });
  expect(await restore(stage, lost)).toMatchObject({ rebuilt: 0, unresolved: [], paying: true });
  expect(await balanceOf(user)).toMatchObject({ available: 699n, pending: 1n });
  await fail(again.id);
  await rounds(stage, payer);
  expect(await stage.withdrawal(again.id)).toMatchObject({ status: "failed" });
  expect(await balanceOf(user)).toMatchObject({ available: 700n, pending: 0n });
  expect(await stage.usdcOf(`0x${lost.to}`)).toBe(300n);
  expect(await differences(stage)).toEqual([]);
});

itDeeper("debits a withdrawal that was cancelled here and paid in the lost time", async () => {
  const { stage, user, to, id, paymentId: paid } = await queuedWithdrawal();
  await steal(stage, { id: paid, amount: 300n, to });
  await cancel(user, id);
  const payer = await halted(stage);
  const lost = recordOf(user, {
    paymentId: paid,
    withdrawalId: id,
    clientWithdrawalId: `w-${id}`,
    to,
  });
  expect(await restore(stage)).toMatchObject({ unresolved: [{ payment_id: paid }], paying: false });
  expect(await restore(stage, lost)).toMatchObject({ rebuilt: 1, unresolved: [], paying: true });
  await recordResume(env.DB, stage.chain.chain, "operator:test");
  await rounds(stage, payer);
  expect(await balanceOf(user)).toMatchObject({ available: 700n, pending: 0n });
  expect(await differences(stage)).toEqual([]);
});

it("settles a withdrawal that waits here and was approved in the lost time", async () => {
  const { stage, user, to, id, paymentId: paid } = await queuedWithdrawal();
  await waits(id);
  await steal(stage, { id: paid, amount: 300n, to });
  await halted(stage);
  await waits(id, 1);
  await expireApprovals(env);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "awaiting_approval" });
  const lost = recordOf(user, {
    paymentId: paid,
    withdrawalId: id,
    clientWithdrawalId: `w-${id}`,
    to,
  });
  expect(await restore(stage)).toMatchObject({ unresolved: [{ payment_id: paid }], paying: false });
  await expect(cancel(user, id)).rejects.toMatchObject({ data: { code: "withdrawals_paused" } });
  expect(await restore(stage, lost)).toMatchObject({ rebuilt: 1, unresolved: [], paying: true });
  expect(await stage.withdrawal(id)).toMatchObject({ status: "settled" });
  expect(await balanceOf(user)).toMatchObject({ available: 700n, pending: 0n });
});

itDeeper("returns what waits here while a lost withdrawal cannot be debited", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const { id } = await stage.withdraw(user.userId, USDC, 800n, someone());
  await waits(id);
  const lost = await lostWithdrawal(stage, user);
  const payer = await halted(stage);
  expect(await restore(stage, lost)).toMatchObject({
    unresolved: [{ reason: expect.stringContaining("too little available") }],
  });
  await fail(id);
  await payer.round();
  // The void is signed. Until the chain shows it, nothing ends the withdrawal.
  await waits(id, 1);
  await expireApprovals(env);
  await rounds(stage, payer);
  expect(await stage.withdrawal(id)).toMatchObject({ status: "failed" });
  expect(await restore(stage, lost)).toMatchObject({ rebuilt: 1, unresolved: [], paying: true });
  expect(await balanceOf(user)).toMatchObject({ available: 700n, pending: 0n });
});

itDeeper(
  "returns what waits here and was paid without a record, once that is accepted",
  async () => {
    const { stage, user, to, id, paymentId: paid } = await queuedWithdrawal();
    await waits(id);
    await steal(stage, { id: paid, amount: 300n, to });
    const payer = await halted(stage);
    await fail(id);
    await rounds(stage, payer);
    expect(await stage.withdrawal(id)).toMatchObject({ status: "awaiting_approval" });
    expect(await accept(stage, paid)).toMatchObject({ status: "accepted" });
    expect(await restore(stage)).toMatchObject({ unresolved: [], paying: true });
    await fail(id);
    await payer.round();
    expect(await stage.withdrawal(id)).toMatchObject({ status: "failed" });
    expect(await balanceOf(user)).toMatchObject({ available: 1_000n, pending: 0n });
  },
);

it("takes no order under an id whose payment was accepted", async () => {
  const stage = await openStage();
  const user = await funded(stage);
  const lost = await lostWithdrawal(stage, user);
  await halted(stage);
  expect(await accept(stage, lost.paymentId)).toMatchObject({ status: "accepted" });
  expect(await restore(stage)).toMatchObject({ unresolved: [], paying: true });
  const { actor } = await newKey(user);
  const terms = {
    clientWithdrawalId: "lost-1",
    amount: stage.settings.WITHDRAWAL_MIN_UNITS,
    toAddress: `0x${lost.to}`,
    chain: stage.chain.chain,
    asset: USDC,
  };
  await expect(
    withdraw(env.DB, stage.settings, { actor, ip: undefined, terms }),
  ).rejects.toMatchObject({ data: { code: "client_withdrawal_id_reused" } });
  expect(await balanceOf(user)).toMatchObject({ available: 1_000n, pending: 0n });
});
