/**
 * Puts an older database back while the chain keeps its blocks. Nothing is paid again, and
 * `restore` completes the ledger before the payer continues.
 */
import { cpSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { type Address, createPublicClient, http } from "viem";
import { completeRestore, readRecords } from "../../scripts/deploy/records.ts";
import { runScriptFile } from "../support/node/processes.ts";
import type { Client } from "../../packages/client/src/index.ts";
import {
  fund,
  newAddress,
  newAsset,
  newTrader,
  operator,
  paymentsOf,
  SLOW_MACHINE,
  startTestStack,
  type TestStack,
  type Trader,
  until,
  withdrawalClient,
} from "../support/node/stack.ts";

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(async () => {
  await stack?.stop();
});

async function settle(
  client: Client,
  id: string,
  amount: bigint,
  to = newAddress(),
): Promise<Address> {
  await client.custody.withdraw({ client_withdrawal_id: id, amount, to_address: to });
  await until(`${id} to settle`, 30_000, async () => {
    const { status } = await client.custody.withdrawal({ client_withdrawal_id: id });
    return status === "settled" ? status : null;
  });
  return to;
}

async function paidIds(): Promise<string[]> {
  return (await paymentsOf(stack)).map(({ args }) => args.id ?? "");
}

type Status = {
  chains: {
    payer_halted: { reason: string } | null;
    head_block: number;
    confirmed_block: number;
  }[];
  alerts: { kind: string }[];
};
type Restored = {
  ok: boolean;
  chains: {
    local: {
      rebuilt: number;
      unresolved: unknown[];
      addresses: { rewritten: number; lost_users: { user_id: string }[] };
    };
  };
};

/** Waits until the payer has stopped and every block up to now is confirmed. */
async function untilStopped(): Promise<Status> {
  const head = Number(await createPublicClient({ transport: http(stack.rpcUrl) }).getBlockNumber());
  return until("the payer to stop", 30_000, async () => {
    const status = await operator<Status>(stack, "chain status");
    const [chain] = status.chains;
    return chain !== undefined && chain.payer_halted !== null && chain.confirmed_block >= head
      ? status
      : null;
  });
}

const DATABASE = /^miniflare-D1DatabaseObject$/;

/**
 * The files of D1 alone. Durable Objects keep theirs, as they do when Time Travel restores a
 * database.
 */
function databaseDir(): string {
  const d1 = join(stack.dir, "state", "v3", "d1");
  const name = readdirSync(d1).find((entry) => DATABASE.test(entry));
  if (name === undefined) throw new Error(`no database in ${d1}`);
  return join(d1, name);
}

type Traders = { ann: Trader; bob: Trader; withdrawer: Client };

/** Deposits, a trade and a payment that the backup contains. */
async function beforeBackup(): Promise<Traders> {
  const [ann, bob] = await Promise.all([newTrader(stack), newTrader(stack)]);
  const asset = newAsset();
  await fund(stack, [
    { trader: ann, usdc: 1_000_000n },
    { trader: bob, tokens: { asset, amount: 1_000n } },
  ]);
  const request = await ann.client.rfq.request({ ...asset, amount: 1_000n, side: "Bid" });
  const quote = await bob.client.rfq.quote(
    { request_id: request.request_id, price: 500_000 },
    SLOW_MACHINE,
  );
  await ann.client.rfq.accept({ quote_id: quote.quote_id });
  const withdrawer = await withdrawalClient(stack, ann);
  await settle(withdrawer, "known", 100_000n);
  return { ann, bob, withdrawer };
}

/** Payments, addresses, deposits and a user that the backup does not contain. */
async function afterBackup({
  ann,
  bob,
  withdrawer,
}: Traders): Promise<{ paidTo: Address; lost: Trader; lostAddress: string }> {
  const paid = settle(withdrawer, "lost", 200_000n);
  const carol = await newTrader(stack);
  const { address } = await bob.client.custody.createDepositAddress();
  await fund(stack, [
    { trader: ann, usdc: 30_000n },
    { trader: { ...bob, depositAddress: address as Address }, usdc: 50_000n },
    { trader: carol, usdc: 70_000n },
  ]);
  await settle(await withdrawalClient(stack, carol), "lost-too", 20_000n);
  return { paidTo: await paid, lost: carol, lostAddress: address };
}

it("an older database pays nothing twice, and `restore` completes its ledger", async () => {
  const traders = await beforeBackup();
  const { ann, bob, withdrawer } = traders;
  const backup = join(stack.dir, "backup");
  await stack.runCron();
  await stack.restartWorker({}, () => cpSync(databaseDir(), backup, { recursive: true }));
  const { paidTo, lost, lostAddress } = await afterBackup(traders);
  // Cron puts heads of the audit events that will be lost into R2.
  await stack.runCron();
  const before = {
    ann: await ann.client.custody.usdcBalance(),
    bob: await bob.client.custody.usdcBalance(),
    paid: await paidIds(),
  };

  await stack.restartWorker({}, () => {
    const database = databaseDir();
    rmSync(database, { recursive: true });
    cpSync(backup, database, { recursive: true });
  });
  await stack.runCron();
  const stopped = await untilStopped();
  expect(stopped.alerts.map(({ kind }) => kind)).toEqual(
    expect.arrayContaining(["payer_halted", "payment_unknown"]),
  );
  const again = { client_withdrawal_id: "lost", amount: 200_000n, to_address: paidTo };
  await expect(withdrawer.custody.withdraw(again)).rejects.toMatchObject({
    code: "withdrawals_paused",
  });
  expect(await paidIds()).toEqual(before.paid);

  const restored = await operator<Restored>(stack, "restore");
  expect(restored.chains.local).toMatchObject({
    rebuilt: 2,
    unresolved: [],
    addresses: { rewritten: 2, lost_users: [{ user_id: lost.userId }] },
  });
  expect(restored).toMatchObject({ ok: true, audit: { ok: true, epoch: 1 } });
  expect(await operator(stack, "audit verify", { "known-restores": "1" })).toMatchObject({
    ok: true,
    verdict: "lost_in_restore",
    discrepancies: [],
    restores: [{ epoch: 1, lost: { from: expect.any(Number) } }],
  });
  expect(await ann.client.custody.usdcBalance()).toEqual(before.ann);
  expect(await bob.client.custody.usdcBalance()).toEqual(before.bob);
  expect((await bob.client.custody.depositAddresses()).map(({ address }) => address)).toContain(
    lostAddress,
  );
  expect(await withdrawer.custody.withdraw(again)).toMatchObject({ status: "settled" });

  await settle(withdrawer, "next", 10_000n);
  const paid = await paidIds();
  expect(paid).toEqual([...before.paid, stack.paymentId(ann.userId, "next")]);
  expect(new Set(paid).size).toBe(paid.length);
  expect(await operator(stack, "reconcile")).toMatchObject({ ok: true, differences: [] });
  await expect(operator(stack, "restore")).rejects.toThrow("nothing_halted");
  expect(await operator<Restored>(stack, "restore", { yes: "true" })).toMatchObject({
    ok: true,
    chains: { local: { rebuilt: 0, addresses: { rewritten: 0 } } },
  });
});

/** As each minute, by the script. */
async function copyRecords(out: string): Promise<void> {
  const args = ["--records", "--out", out];
  const run = runScriptFile("scripts/backup.ts", { args, env: { RFQ_DIR: stack.dir } });
  expect(await run.exited, run.output()).toBe(0);
}

type Owed = { owed_to_users: string; issued: string }[];

it("an account that was lost is restored from a backup and the records made since", async () => {
  const out = mkdtempSync(join(tmpdir(), "account-"));
  onTestFinished(() => rmSync(out, { recursive: true, force: true }));
  const traders = await beforeBackup();
  const { ann, bob, withdrawer } = traders;
  const backup = join(out, "d1");
  await stack.runCron();
  // The head that the backup's log still has.
  const taken = join(out, "database.sql");
  writeFileSync(taken, "");
  await copyRecords(out);
  await stack.restartWorker({}, () => {
    utimesSync(taken, new Date(), new Date());
    cpSync(databaseDir(), backup, { recursive: true });
  });
  const { lost, lostAddress } = await afterBackup(traders);
  await stack.runCron();
  await copyRecords(out);
  const before = {
    ann: await ann.client.custody.usdcBalance(),
    bob: await bob.client.custody.usdcBalance(),
    owed: await operator<Owed>(stack, "liabilities"),
    paid: await paidIds(),
  };

  const state = join(stack.dir, "state", "v3");
  await stack.restartWorker({}, () => {
    for (const one of ["do", "r2"]) rmSync(join(state, one), { recursive: true });
    const database = databaseDir();
    rmSync(database, { recursive: true });
    cpSync(backup, database, { recursive: true });
  });
  await stack.runCron();
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  await completeRestore(stack.operator, readRecords(out), { log, pollMs: 200 });
  expect(lines).toContain("done  restore: 2 withdrawals");
  expect(await ann.client.custody.usdcBalance()).toEqual(before.ann);
  expect(await bob.client.custody.usdcBalance()).toEqual(before.bob);
  expect((await bob.client.custody.depositAddresses()).map(({ address }) => address)).toContain(
    lostAddress,
  );
  expect(await operator(stack, "user show", { "user-id": lost.userId })).toMatchObject({
    email: `${lost.userId}@lost.invalid`,
    balances: [{ balance: "0xc350" }],
  });
  expect(await operator<Owed>(stack, "liabilities")).toEqual(before.owed);
  // All of it was moved today, unless midnight has passed.
  const today = new Date(Date.now() - 3_600_000).toISOString().slice(0, 10);
  for (const { owed_to_users, issued } of await operator<Owed>(stack, "liabilities", { at: today }))
    expect([owed_to_users, issued]).toEqual(["0x0", "0x0"]);
  for (const row of await operator<{ holdings: string; issued: string }[]>(stack, "holdings"))
    expect(BigInt(row.holdings)).toBeGreaterThanOrEqual(BigInt(row.issued));
  expect(await operator(stack, "audit verify", { "known-restores": "3" })).toMatchObject({
    ok: true,
    verdict: "lost_in_restore",
    discrepancies: [],
  });
  await settle(withdrawer, `next-${ann.userId}`, 10_000n);
  expect(await paidIds()).toEqual([
    ...before.paid,
    stack.paymentId(ann.userId, `next-${ann.userId}`),
  ]);
});
