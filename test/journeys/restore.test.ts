/** An hour-old database is put back while the chain stays: nothing is paid again, and the books are whole before the payer goes on. */
import { randomBytes } from "node:crypto";
import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Address, createPublicClient, getAddress, http, toHex } from "viem";
import { vaultAbi } from "../../src/chain/abi/vault.ts";
import { paymentId } from "../../src/chain/payment-id.ts";
import type { Client } from "../../packages/client/src/index.ts";
import {
  fund,
  newAsset,
  newTrader,
  operatorKey,
  startTestStack,
  type TestStack,
  type Trader,
  until,
} from "../support/node/stack.ts";

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(async () => {
  await stack?.stop();
});

const someone = (): Address => getAddress(toHex(randomBytes(20)));

async function settle(
  client: Client,
  id: string,
  amount: bigint,
  to = someone(),
): Promise<Address> {
  await client.custody.withdraw({ client_withdrawal_id: id, amount, to_address: to });
  await until(`${id} to settle`, 30_000, async () => {
    const { status } = await client.custody.withdrawal({ client_withdrawal_id: id });
    return status === "settled" ? status : null;
  });
  return to;
}

async function order<T>(...words: string[]): Promise<T> {
  const options: Record<string, string> = words.includes("--yes") ? { yes: "true" } : {};
  const answer = await stack.operator({
    command: words.filter((word) => word !== "--yes"),
    options,
    operator: "test",
  });
  if (!answer.ok) throw new Error(JSON.stringify(answer.problem));
  return answer.result as T;
}

async function payments(): Promise<string[]> {
  const chain = createPublicClient({ transport: http(stack.rpcUrl) });
  const logs = await chain.getContractEvents({
    address: stack.deployment.vault,
    abi: vaultAbi,
    eventName: "Paid",
    fromBlock: 0n,
  });
  return logs.map(({ args }) => args.id ?? "");
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

/** Until the payer has stopped and every block that there was has been read. */
async function untilStopped(): Promise<Status> {
  const head = Number(await createPublicClient({ transport: http(stack.rpcUrl) }).getBlockNumber());
  return until("the payer to stop by itself", 30_000, async () => {
    const status = await order<Status>("chain", "status");
    const [chain] = status.chains;
    return chain !== undefined && chain.payer_halted !== null && chain.confirmed_block >= head
      ? status
      : null;
  });
}

const DATABASE = /^miniflare-D1DatabaseObject$/;

/** D1's files alone: the Durable Objects keep theirs, as they do when Time Travel takes a database back. */
function databaseDir(): string {
  const d1 = join(stack.dir, "state", "v3", "d1");
  const name = readdirSync(d1).find((entry) => DATABASE.test(entry));
  if (name === undefined) throw new Error(`no database in ${d1}`);
  return join(d1, name);
}

type People = { ann: Trader; bob: Trader; withdrawer: Client };

/** Deposits, a trade and a payment that the backup knows. */
async function firstHour(): Promise<People> {
  const [ann, bob] = await Promise.all([newTrader(stack), newTrader(stack)]);
  const asset = newAsset();
  await fund(stack, [
    { trader: ann, usdc: 1_000_000n },
    { trader: bob, tokens: { asset, amount: 1_000n } },
  ]);
  const request = await ann.client.rfq.request({ ...asset, amount: 1_000n, side: "Bid" });
  const quote = await bob.client.rfq.quote({ request_id: request.request_id, price: 500_000 });
  await ann.client.rfq.accept({ quote_id: quote.quote_id });
  const withdrawer = await operatorKey(stack, ann, ["read", "withdraw"]);
  await settle(withdrawer, "known", 100_000n);
  return { ann, bob, withdrawer };
}

/** What the backup will not know: payments, addresses, deposits, and a user. */
async function lostHour({
  ann,
  bob,
  withdrawer,
}: People): Promise<{ paidTo: Address; lost: Trader; lostAddress: string }> {
  const paid = settle(withdrawer, "lost", 200_000n);
  const carol = await newTrader(stack);
  const { address } = await bob.client.custody.createDepositAddress();
  await fund(stack, [
    { trader: ann, usdc: 30_000n },
    { trader: { ...bob, depositAddress: address as Address }, usdc: 50_000n },
    { trader: carol, usdc: 70_000n },
  ]);
  await settle(await operatorKey(stack, carol, ["read", "withdraw"]), "lost-too", 20_000n);
  return { paidTo: await paid, lost: carol, lostAddress: address };
}

it("after an older database was put back nothing is paid twice, and `restore` makes the books whole", async () => {
  const people = await firstHour();
  const { ann, bob, withdrawer } = people;
  const backup = join(stack.dir, "backup");
  await stack.restartWorker({}, () => cpSync(databaseDir(), backup, { recursive: true }));
  const { paidTo, lost, lostAddress } = await lostHour(people);
  const before = {
    ann: await ann.client.custody.usdcBalance(),
    bob: await bob.client.custody.usdcBalance(),
    paid: await payments(),
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
  expect(await payments()).toEqual(before.paid);

  const restored = await order<Restored>("restore");
  expect(restored.chains.local).toMatchObject({
    rebuilt: 2,
    unresolved: [],
    addresses: { rewritten: 2, lost_users: [{ user_id: lost.userId }] },
  });
  expect(restored.ok).toBe(true);
  expect(await ann.client.custody.usdcBalance()).toEqual(before.ann);
  expect(await bob.client.custody.usdcBalance()).toEqual(before.bob);
  expect((await bob.client.custody.depositAddresses()).map(({ address }) => address)).toContain(
    lostAddress,
  );
  expect(await withdrawer.custody.withdraw(again)).toMatchObject({ status: "settled" });

  await settle(withdrawer, "next", 10_000n);
  const paid = await payments();
  expect(paid).toEqual([...before.paid, paymentId(ann.userId, "next")]);
  expect(new Set(paid).size).toBe(paid.length);
  expect(await order("reconcile")).toMatchObject({ ok: true, differences: [] });
  await expect(order("restore")).rejects.toThrow("nothing_halted");
  expect(await order<Restored>("restore", "--yes")).toMatchObject({
    ok: true,
    chains: { local: { rebuilt: 0, addresses: { rewritten: 0 } } },
  });
});
