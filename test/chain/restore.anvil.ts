import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import type { Hex } from "viem";
import { paymentId } from "../../src/chain/payment-id.ts";
import { USDC } from "../../src/assets/asset.ts";
import {
  blockBefore,
  missingAddresses,
  restoreAddresses,
  readLostUsers,
} from "../../src/custody/watcher/restore-addresses.ts";
import { rescanFrom } from "../../src/custody/watcher/rescan.ts";
import { depositAddressFor } from "../../src/chain/addresses.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import type { WithdrawalRecord } from "../../src/custody/payer/withdrawal-record.ts";
import { haltPayer } from "../../src/custody/payer/payer-lease.ts";
import { restorePayments, type RestoreReport } from "../../src/custody/payer/restore-payments.ts";
import { checkStreams } from "../../src/reconcile/check-events.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { alertTermsOf } from "../../src/platform/alert-kinds.ts";
import { all, blob, first, sql, uuid } from "../../src/platform/sql.ts";
import { memoryBucket } from "../support/audit-bucket.ts";
import { funded } from "./support/drive.ts";
import { openStage, someone } from "./support/stage.ts";
import { steal } from "./support/theft.ts";
import { itDeeper } from "../support/depth.ts";

/** A restored database: the vault has paid a withdrawal that it does not contain. */
async function openRestored() {
  const stage = await openStage();
  const user = await stage.user();
  await stage.watch();
  await stage.mintUsdc(user.address, 1_000n);
  await stage.mintUsdc(stage.vault, 1_000n);
  await stage.confirm();
  await stage.watch();
  const lost: WithdrawalRecord = {
    paymentId: paymentId(stage.settings, user.userId, "lost-1"),
    withdrawalId: crypto.randomUUID(),
    jobId: crypto.randomUUID(),
    userId: user.userId,
    clientWithdrawalId: "lost-1",
    asset: USDC,
    amount: "300",
    to: someone().slice(2).toLowerCase(),
    createdAt: Date.now(),
  };
  const to = `0x${lost.to}` as Hex;
  await steal(stage, { id: lost.paymentId as Hex, amount: 300n, to });
  await stage.confirm();
  await stage.watch();
  const queued = await stage.withdraw(user.userId, USDC, 10n, someone());
  const payer = await stage.payer();
  await payer.round();
  expect(await payer.round()).toEqual({ status: "halted" });
  return { stage, user, lost, queued, payer };
}

it("a restore halts the payer until every payment has its withdrawal", async () => {
  const { stage, user, lost, queued, payer } = await openRestored();
  expect(await stage.alerts()).toEqual(expect.arrayContaining(["payer_halted", "payment_unknown"]));
  const { chain } = stage.chain;
  const halt = await first<{ detail: string }>(
    env.DB,
    sql`SELECT detail FROM alerts WHERE kind = 'payer_halted' AND subject = ${chain}`,
  );
  const { close } = alertTermsOf("payer_halted") ?? {};
  expect(close?.(chain, halt?.detail ?? "")).toEqual(["restore"]);
  const without = await restorePayments(stage.watcher, async () => new Map());
  expect(without).toMatchObject({
    rebuilt: 0,
    unresolved: [{ payment_id: lost.paymentId, reason: "no recovery record" }],
  });
  const forged = await restorePayments(
    stage.watcher,
    async () => new Map([[lost.paymentId, { ...lost, clientWithdrawalId: "other" }]]),
  );
  expect(forged).toMatchObject({
    rebuilt: 0,
    unresolved: [{ reason: "the recovery record has another payment id" }],
  });
  const otherAsset = { ...lost, asset: "venue_one:0x7" };
  expect(
    await restorePayments(stage.watcher, async () => new Map([[lost.paymentId, otherAsset]])),
  ).toMatchObject({
    rebuilt: 0,
    unresolved: [{ reason: "the recovery record has other terms" }],
  });
  expect(await payer.round()).toEqual({ status: "halted" });

  const before = await first<{ seq: number }>(
    env.DB,
    sql`SELECT max(transfer_id) AS seq FROM transfers`,
  );
  const wake = async () => {};
  const restored = async (_: string, after: number) =>
    restorePayments(stage.watcher, async () => new Map([[lost.paymentId, lost]]), after);
  const addresses = { rewritten: 0, unread_above: null, lost_users: [] };
  const bindings = {
    AUDIT: memoryBucket(),
    SEALER: { getByName: () => ({ lost: async () => null }) },
    CHAIN_WATCHER: { getByName: () => ({ wake, restore: async () => addresses }) },
    PAYER: { getByName: () => ({ wake, restore: restored }) },
  };
  const report = await stage.answerAlert("payment_unknown", undefined, { bindings });
  const rebuilt = { rebuilt: 1, unresolved: [], remaining: 0, next_batch: 2 };
  const chains = { [stage.chain.chain]: { ok: true, addresses, ...rebuilt } };
  expect(report).toEqual({ ok: true, chains });
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 690n,
    pending: 10n,
  });
  expect(await stage.withdrawal(lost.withdrawalId)).toMatchObject({ status: "settled" });
  const after = await first<{ seq: number }>(
    env.DB,
    sql`SELECT max(transfer_id) AS seq FROM transfers`,
  );
  expect((after?.seq ?? 0) - (before?.seq ?? 0)).toBeGreaterThan(1_000_000);

  for (let round = 0; round < 6; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
  }
  expect(await stage.withdrawal(queued.id)).toMatchObject({ status: "settled" });
  expect(await stage.paidCount(lost.paymentId as Hex)).toBe(1);
  expect(await stage.paidCount(queued.paymentId)).toBe(1);
  expect(await stage.usdcOf(`0x${lost.to}`)).toBe(300n);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 690n,
    pending: 0n,
  });
  expect(await restorePayments(stage.watcher, async () => new Map())).toMatchObject({
    rebuilt: 0,
    unresolved: [],
  });
  // Its stream has events from before the restore, below its first number, and none since.
  expect(await checkStreams(env.DB, "full", { after: 0, upTo: 1e9 })).toEqual([]);
});

it("keeps the payer halted while a lost payment cannot be debited", async () => {
  const { stage, user, lost, payer } = await openRestored();
  await stage.withdraw(user.userId, USDC, 900n, someone());
  const report = await restorePayments(
    stage.watcher,
    async () => new Map([[lost.paymentId, lost]]),
  );
  expect(report).toMatchObject({
    rebuilt: 0,
    unresolved: [{ reason: expect.stringContaining("too little available") }],
  });
  expect(await payer.round()).toEqual({ status: "halted" });
  expect(
    await first(
      env.DB,
      sql`SELECT 1 FROM withdrawals WHERE user_id = ${uuid(user.userId)}
        AND client_withdrawal_id = 'lost-1'`,
    ),
  ).toBeUndefined();
});

it("settles a repeated withdrawal by the payment that the vault already made", async () => {
  const { stage, user, lost, queued, payer } = await openRestored();
  const again = await stage.withdraw(user.userId, USDC, 300n, `0x${lost.to}`, "lost-1");
  expect(await restorePayments(stage.watcher, async () => new Map())).toMatchObject({
    rebuilt: 0,
    unresolved: [],
  });
  for (let round = 0; round < 6; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
  }
  expect(await stage.withdrawal(again.id)).toMatchObject({ status: "settled" });
  expect(await stage.withdrawal(queued.id)).toMatchObject({ status: "settled" });
  expect(await stage.paidCount(again.paymentId)).toBe(1);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 690n,
    pending: 0n,
  });
});

itDeeper("`fail` returns funds while the payer is halted", async () => {
  const { stage, user, lost, payer } = await openRestored();
  const greedy = await stage.withdraw(user.userId, USDC, 990n, someone());
  const records = async () => new Map([[lost.paymentId, lost]]);
  const unresolved = [
    { payment_id: lost.paymentId, reason: "the user is unknown or has too little available" },
  ];
  expect(await restorePayments(stage.watcher, records)).toMatchObject({ rebuilt: 0, unresolved });
  await all(
    env.DB,
    sql`INSERT INTO chain_commands (chain, kind, withdrawal_id, actor, at)
      VALUES (${stage.chain.chain}, 'fail', ${uuid(greedy.id)}, 'operator:test', 0)`,
  );
  for (let round = 0; round < 4; round++) {
    await payer.round();
    await stage.mine();
    await stage.watch();
  }
  expect(await stage.withdrawal(greedy.id)).toMatchObject({
    status: "failed",
    failure_code: "operator_failed",
  });
  expect(await payer.round()).toEqual({ status: "halted" });
  expect(await restorePayments(stage.watcher, records)).toMatchObject({
    rebuilt: 1,
    unresolved: [],
  });
  expect(await stage.paidCount(greedy.paymentId)).toBe(0);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 690n,
    pending: 10n,
  });
});

it("restores lost addresses and their deposits once, and lost users frozen", async () => {
  const stage = await openStage({ chain: { scan_range: 3 } });
  const user = await stage.user();
  const lostUser = uuidv7();
  const recordOf = (userId: string, nonce: number) => {
    const { address, salt } = depositAddressFor(stage.settings, stage.chain, userId, nonce);
    return {
      address: address.slice(2).toLowerCase(),
      salt: salt.slice(2),
      userId,
      nonce,
      createdAt: Date.now(),
    };
  };
  const records = [recordOf(user.userId, 0), recordOf(user.userId, 1), recordOf(lostUser, 0)];
  await stage.mintUsdc(user.address, 5n);
  for (const { address } of records.slice(1)) await stage.mintUsdc(`0x${address}`, 7n);
  await stage.mine(9);
  while ((await stage.watch()).behind);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 5n,
    pending: 0n,
  });

  const missing = await missingAddresses(stage.watcher, records);
  expect(missing).toEqual(records.slice(1));
  // The second pass is a restore that is repeated after an interruption.
  for (let pass = 0; pass < 2; pass++) {
    await restoreAddresses(stage.watcher, missing);
    let above: number | null = await blockBefore(stage.watcher, missing[0]?.createdAt ?? 0);
    while (above !== null) above = await rescanFrom(stage.watcher, above);
  }
  expect(await missingAddresses(stage.watcher, records)).toEqual([]);
  expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
    available: 12n,
    pending: 0n,
  });
  expect(await readBalance(env.DB, lostUser, USDC)).toMatchObject({ available: 7n, pending: 0n });
  expect(await readLostUsers(env.DB, stage.chain.chain)).toEqual([
    { user_id: lostUser, addresses: [`0x${records[2]?.address}`] },
  ]);
  const account = await first<{ frozen: number }>(
    env.DB,
    sql`SELECT frozen_at > 0 AS frozen FROM users WHERE user_id = ${uuid(lostUser)}`,
  );
  expect(account?.frozen).toBe(1);
});

it(
  "rebuilds any number of lost payments before the payer continues",
  { timeout: 240_000 },
  async () => {
    const stage = await openStage();
    const { chain } = stage.chain;
    const user = await funded(stage, 10_000n);
    const lost = Array.from({ length: 600 }, (_, index): WithdrawalRecord => ({
      paymentId: paymentId(stage.settings, user.userId, `lost-${index}`),
      withdrawalId: crypto.randomUUID(),
      jobId: crypto.randomUUID(),
      userId: user.userId,
      clientWithdrawalId: `lost-${index}`,
      asset: USDC,
      amount: "1",
      to: someone().slice(2).toLowerCase(),
      createdAt: Date.now(),
    }));
    const rows = JSON.stringify(
      lost.map(({ paymentId: id, to }, index) => ({ id: id.slice(2), to, batch: index })),
    );
    await all(
      env.DB,
      sql`INSERT INTO vault_events (chain, transaction_hash, ordinal, kind, payment_id, vault,
        batch_no, asset, amount, to_address, block_number, block_hash, recorded_group)
      SELECT ${chain}, unhex(j.value ->> 'id'), 0, 'Paid', unhex(j.value ->> 'id'),
        ${blob(stage.vault)}, j.value ->> 'batch', ${USDC}, '1', unhex(j.value ->> 'to'), 1,
        unhex(j.value ->> 'id'), -1
      FROM json_each(${rows}) j`,
    );
    const payer = await stage.payer();
    await haltPayer(payer.context, "the database is older than the chain");
    const records = new Map(lost.map((record) => [record.paymentId, record]));
    const restorePage = (after: number) =>
      restorePayments(stage.watcher, async () => records, after);

    // A page that rebuilds nothing does not let the payer continue either.
    const nothing = await restorePage(Number.MAX_SAFE_INTEGER);
    expect(nothing).toMatchObject({ rebuilt: 0, unresolved: [], paying: false });
    let rebuilt = 0;
    for (let after: number | null = 0; after !== null;) {
      const page: RestoreReport = await restorePage(after);
      rebuilt += page.rebuilt;
      after = page.next;
      expect(page).toMatchObject({ remaining: 600 - rebuilt, paying: rebuilt === 600 });
      expect(page.unresolved).toEqual([]);
      expect(await payer.round()).toEqual({ status: rebuilt === 600 ? "idle" : "halted" });
    }
    expect(rebuilt).toBe(600);
    expect(await readBalance(env.DB, user.userId, USDC)).toMatchObject({
      available: 9_400n,
      pending: 0n,
    });
  },
);
