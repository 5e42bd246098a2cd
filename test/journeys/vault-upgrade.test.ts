/**
 * Moves the service to a new vault with the documented commands (contracts/README.md, "Upgrade"),
 * while withdrawals are queued, submitted and failed. Each ends once, and no id is paid twice.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type Address,
  createTestClient,
  createWalletClient,
  encodeFunctionData,
  type Hex,
  http,
  parseGwei,
  publicActions,
} from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { ANVIL_CHAIN } from "../../scripts/stack/anvil-chain.ts";
import type { Client, MarketAsset } from "../../packages/client/src/index.ts";
import { deterministicDeployment } from "../../scripts/stack/deploy-contracts.ts";
import { KEPT_FILE } from "../../scripts/stack/directory.ts";
import { ANVIL_ACCOUNT_KEYS } from "../../scripts/stack/faucet.ts";
import {
  type LocalSecrets,
  localSettings,
  payerAddress,
} from "../../scripts/stack/local-settings.ts";
import { tokenOf } from "../../scripts/stack/tokens.ts";
import { depositFactoryAbi } from "../../contracts/abi/deposit-factory.ts";
import { vaultAbi } from "../../contracts/abi/vault.ts";
import {
  fund,
  newAddress,
  newAsset,
  newTrader,
  operator,
  startTestStack,
  type TestStack,
  type Trader,
  until,
  usdcOf,
  withdrawalClient,
} from "../support/node/stack.ts";

const LIMIT = 1n << 90n;
const admin = privateKeyToAccount(ANVIL_ACCOUNT_KEYS.deployer);

let stack: TestStack;
let trader: Trader;
let client: Client;
let asset: MarketAsset;
/** The present vault first, then the ones before it. */
let vaults: Address[];
let blocksStopped = false;

beforeAll(async () => {
  stack = await startTestStack();
  trader = await newTrader(stack);
  client = await withdrawalClient(stack, trader);
  asset = newAsset();
  vaults = [stack.deployment.vault];
  await fund(stack, [{ trader, usdc: 1_000_000n, tokens: { asset, amount: 1_000n } }]);
});
afterAll(() => stack?.stop());

type Status = {
  chains: { open_transactions: number; confirmed_block: number }[];
  alerts: { kind: string; subject: string }[];
};

function chain() {
  return createTestClient({
    mode: "anvil",
    chain: ANVIL_CHAIN,
    transport: http(stack.rpcUrl),
  }).extend(publicActions);
}

/** Sends the admin's calls together. Their fees are high, so a block takes them before others. */
async function asAdmin(calls: readonly { to: Address; data: Hex }[]): Promise<void> {
  const wallet = createWalletClient({
    account: admin,
    chain: ANVIL_CHAIN,
    transport: http(stack.rpcUrl),
  });
  const fees = { maxFeePerGas: parseGwei("500"), maxPriorityFeePerGas: parseGwei("90") };
  let nonce = await chain().getTransactionCount({ address: admin.address });
  const hashes: Hex[] = [];
  for (const call of calls)
    hashes.push(
      await wallet.sendTransaction({ ...call, ...fees, gas: 8_000_000n, nonce: nonce++ }),
    );
  if (blocksStopped) await chain().mine({ blocks: 1 });
  const receipts = await Promise.all(
    hashes.map((hash) => chain().waitForTransactionReceipt({ hash, timeout: 30_000 })),
  );
  expect(receipts.map(({ status }) => status)).toEqual(calls.map(() => "success"));
}

const vaultCall = (
  vault: Address,
  call: Parameters<typeof encodeFunctionData<typeof vaultAbi>>[0],
) => ({
  to: vault,
  data: encodeFunctionData(call),
});

/** Steps 1 and 2: deploys the next vault with its limits, and announces the move. */
async function prepareMove(): Promise<Address> {
  const { deployment } = stack;
  const [old = deployment.vault] = vaults;
  const { secrets } = kept();
  const { address: next, ...deploy } = deterministicDeployment("Vault", [
    0,
    admin.address,
    payerAddress(secrets),
    admin.address,
    0,
    old,
  ]);
  const setLimit = (token: Address, kind: number) =>
    vaultCall(next, { abi: vaultAbi, functionName: "setLimit", args: [token, kind, 0n, LIMIT] });
  await asAdmin([
    deploy,
    setLimit(deployment.usdc, 0),
    ...Object.values(deployment.outcomeTokens).map((token) => setLimit(token, 2)),
    vaultCall(old, { abi: vaultAbi, functionName: "scheduleMigration", args: [next] }),
    {
      to: deployment.factory,
      data: encodeFunctionData({
        abi: depositFactoryAbi,
        functionName: "scheduleVault",
        args: [next],
      }),
    },
  ]);
  return next;
}

function kept(): { secrets: LocalSecrets } {
  return JSON.parse(readFileSync(join(stack.dir, KEPT_FILE), "utf8")) as { secrets: LocalSecrets };
}

/** The new vault in the settings, and the old ones in `previous_vaults`. */
async function configure(next: Address): Promise<void> {
  const { CHAINS = "[]" } = localSettings({
    secrets: kept().secrets,
    deployment: { ...stack.deployment, vault: next },
    rpcUrl: stack.rpcUrl,
  });
  const chains = JSON.parse(CHAINS) as object[];
  await stack.restartWorker({
    CHAINS: JSON.stringify(chains.map((each) => ({ ...each, previous_vaults: vaults }))),
  });
  await stack.runCron();
  vaults = [next, ...vaults];
}

/** Hands the factory and everything that the old vault holds to the new one. */
async function migrate(old: Address): Promise<void> {
  const { factory, usdc } = stack.deployment;
  const { contract: token, id: tokenId = 0n } = tokenOf(stack.deployment, asset);
  await asAdmin([
    vaultCall(old, { abi: vaultAbi, functionName: "pause" }),
    {
      to: factory,
      data: encodeFunctionData({ abi: depositFactoryAbi, functionName: "executeVault" }),
    },
    vaultCall(old, {
      abi: vaultAbi,
      functionName: "migrate",
      args: [
        [
          { kind: 0, token: usdc, tokenId: 0n },
          { kind: 1, token, tokenId },
        ],
      ],
    }),
  ]);
}

type Wanted = { id: string; amount: bigint; to?: Address; token?: true };

/** Orders a withdrawal and returns its terms. */
async function withdraw({ id, amount, to = newAddress(), token }: Wanted) {
  const terms = { client_withdrawal_id: id, amount, to_address: to };
  await client.custody.withdraw(token === undefined ? terms : { ...terms, ...asset });
  return { id, amount, to };
}

function untilStatus(id: string, status: "submitted" | "settled" | "failed") {
  return until(`${id} to be ${status}`, 60_000, async () => {
    const now = await client.custody.withdrawal({ client_withdrawal_id: id });
    return now.status === status ? now : null;
  });
}

/** Stops and starts the chain's own blocks. */
async function mineEvery(seconds: number): Promise<void> {
  await chain().setIntervalMining({ interval: seconds });
  blocksStopped = seconds === 0;
}

/** As the handbook says: wait until no transaction is open. */
function untilPayerStopped(): Promise<unknown> {
  return until("no open transaction", 60_000, async () => {
    const { chains } = await operator<Status>(stack, "chain status");
    return chains[0]?.open_transactions === 0 ? chains : null;
  });
}

/** The payments of all vaults by id, oldest first. */
async function paidIds(): Promise<string[]> {
  const events = await chain().getContractEvents({
    abi: vaultAbi,
    address: vaults,
    eventName: "Paid",
    fromBlock: 0n,
  });
  return events.map(({ args }) => args.id ?? "");
}

/** At a block that shows everything sent so far, the chain holds what the books say. */
async function expectBooksToAgree(): Promise<void> {
  const head = Number(await chain().getBlockNumber());
  await until("every block to be confirmed", 30_000, async () => {
    const { chains } = await operator<Status>(stack, "chain status");
    return (chains[0]?.confirmed_block ?? 0) >= head ? true : null;
  });
  expect(await operator(stack, "reconcile")).toMatchObject({
    ok: true,
    complete: true,
    differences: [],
  });
}

/** A contract that refuses every outcome token. */
async function refusingContract(): Promise<Address> {
  const { address, ...deploy } = deterministicDeployment("LocalUSDC", []);
  if ((await chain().getCode({ address })) === undefined) await asAdmin([deploy]);
  return address;
}

const paymentIds = (ids: readonly string[]) => ids.map((id) => stack.paymentId(trader.userId, id));

it("pays and fails every withdrawal once across a documented move", async () => {
  const refuses = await refusingContract();
  await withdraw({ id: "settled-before", amount: 1_000n });
  await withdraw({ id: "failed-before", amount: 10n, to: refuses, token: true });
  await untilStatus("settled-before", "settled");
  await untilStatus("failed-before", "failed");
  const old = stack.deployment.vault;
  const next = await prepareMove();

  await mineEvery(0);
  const submitted = await withdraw({ id: "submitted", amount: 2_000n });
  await untilStatus("submitted", "submitted");
  const queued = await withdraw({ id: "queued", amount: 600_000n });
  await withdraw({ id: "queued-token", amount: 20n, token: true });
  await withdraw({ id: "fails-later", amount: 30n, to: refuses, token: true });
  await withdraw({ id: "failed-by-operator", amount: 4_000n });

  await operator(stack, "withdrawals pause");
  await mineEvery(1);
  await untilPayerStopped();
  const { withdrawal_id: id } = await client.custody.withdrawal({
    client_withdrawal_id: "failed-by-operator",
  });
  await configure(next);
  // The new vault does not void while the old one is in force, so this waits for the move.
  await operator(stack, "withdrawals fail", { id });
  await expectBooksToAgree();
  await migrate(old);
  await expectBooksToAgree();
  await operator(stack, "withdrawals resume");

  for (const settled of ["submitted", "queued", "queued-token"])
    await untilStatus(settled, "settled");
  for (const failed of ["fails-later", "failed-by-operator"]) await untilStatus(failed, "failed");
  expect((await paidIds()).toSorted()).toEqual(
    paymentIds(["settled-before", "submitted", "queued", "queued-token"]).toSorted(),
  );
  for (const { to, amount } of [submitted, queued]) expect(await usdcOf(stack, to)).toBe(amount);
  expect(await client.custody.usdcBalance()).toMatchObject({
    balance: 1_000_000n - 1_000n - 2_000n - 600_000n,
    pending_balance: 0n,
  });
  expect(await client.custody.balance(asset)).toMatchObject({
    balance: 980n,
    pending_balance: 0n,
  });
  await expectBooksToAgree();
  expect((await operator<Status>(stack, "chain status")).alerts).toEqual([]);
});

it("pays once if the move overtakes a payment that was sent", async () => {
  const [old = stack.deployment.vault] = vaults;
  const before = { paid: await paidIds(), ...(await client.custody.usdcBalance()) };
  const next = await prepareMove();
  await mineEvery(0);
  const unconfirmed = await withdraw({ id: "unconfirmed", amount: 100n });
  await untilStatus("unconfirmed", "submitted");
  await chain().mine({ blocks: 1 });
  const overtaken = await withdraw({ id: "overtaken", amount: 200n });
  const sent = await untilStatus("overtaken", "submitted");
  const queued = await withdraw({ id: "queued-again", amount: 300n });
  await operator(stack, "withdrawals pause");
  await configure(next);
  await migrate(old);
  const payment = await chain().getTransactionReceipt({ hash: sent.transaction_hash as Hex });
  expect(payment.status).toBe("reverted");
  await mineEvery(1);
  await operator(stack, "withdrawals resume");

  for (const { id, to, amount } of [unconfirmed, overtaken, queued]) {
    await untilStatus(id, "settled");
    expect(await usdcOf(stack, to)).toBe(amount);
  }
  expect((await paidIds()).toSorted()).toEqual(
    [...before.paid, ...paymentIds(["unconfirmed", "overtaken", "queued-again"])].toSorted(),
  );
  expect(await client.custody.usdcBalance()).toMatchObject({
    balance: before.balance - 600n,
    pending_balance: 0n,
  });
  await expectBooksToAgree();
  expect((await operator<Status>(stack, "chain status")).alerts).toEqual([]);
});
