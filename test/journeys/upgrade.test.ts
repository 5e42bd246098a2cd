/**
 * The last release leaves a database with open quotes, a withdrawal in flight and sealed ranges.
 * This release migrates it and goes on. The old code runs as it was, from the commit of
 * migrations/released.sha256.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, expect, it } from "vitest";
import { readReleased } from "../../scripts/migrations/files.ts";
import { openFaucet } from "../../scripts/stack/faucet.ts";
import { callOperator } from "../../scripts/stack/operator-call.ts";
import { freePort } from "../../scripts/stack/ports.ts";
import { localKey, type OperatorFile, type StackFile } from "../../scripts/stack/stack-file.ts";
import { startStack } from "../../scripts/stack/start-stack.ts";
import type { JournalReport } from "../../scripts/operator/verify-archive.ts";
import { bundledWorker } from "../support/node/bundles.ts";
import { runScriptFile, untilPrinted } from "../support/node/processes.ts";
import {
  newAddress,
  openMarket,
  operator,
  paymentsOf,
  quotedBid,
  SLOW_MACHINE,
  type TestStack,
  until,
  withdrawalClient,
} from "../support/node/stack.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const work = join(".stack", `upgrade-${process.pid}`);
const old = resolve(work, "old");
const dir = resolve(work, "stack");
const AMOUNT = 1_000_000n;
const START_MS = 120_000;
/** Windows of seconds, so that ranges are sealed and released at once. */
const SHORT = { HOT_WINDOWS_DIVISOR: "3600" };

/** Runs the stack of the old tree, and cron again and again, until it is asked to stop. */
const OLD_STACK = (port: number, rpcPort: number) => `
import { startStack } from "./stack/start-stack.ts";
const stack = await startStack(${JSON.stringify({ port, rpcPort, dir, saveChain: true, vars: SHORT })});
process.once("SIGTERM", async () => {
  await stack.stop();
  process.exit(0);
});
console.log("ready");
for (;;) {
  await stack.runCron().catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 1_000));
}
`;

const { commit } = readReleased();
const hasHistory = (() => {
  try {
    execFileSync("git", ["cat-file", "-e", `${commit}^{commit}`], { cwd: ROOT, stdio: "ignore" });
    return true;
  } catch {
    console.warn(`skipped: this copy has no history with ${commit}`);
    return false;
  }
})();

const stops: (() => Promise<unknown>)[] = [];
afterAll(async () => {
  for (const stop of stops.toReversed()) await stop();
  rmSync(work, { recursive: true, force: true });
});

async function startOldStack(): Promise<{ stack: TestStack; stop: () => Promise<void> }> {
  mkdirSync(old, { recursive: true });
  const archive = execFileSync("git", ["archive", commit], { cwd: ROOT, maxBuffer: 2 ** 28 });
  execFileSync("tar", ["-x", "-C", old], { input: archive });
  symlinkSync(join(ROOT, "node_modules"), join(old, "node_modules"));
  // Nobody opens its console, whose packages may be gone by now.
  writeFileSync(join(old, "packages/console/build.ts"), "");
  mkdirSync(join(old, "dist/assets"), { recursive: true });
  const script = join(old, "scripts/old-stack.ts");
  writeFileSync(script, OLD_STACK(await freePort(), await freePort()));
  const running = runScriptFile(script);
  const stop = async () => {
    running.child.kill("SIGTERM");
    await running.exited;
  };
  stops.push(stop);
  await untilPrinted(running, "ready\n", START_MS);
  const file = read<StackFile>("stack.json");
  const { deployment } = read<Pick<TestStack, "deployment">>("local.json");
  const parts = {
    baseUrl: file.base_url,
    rpcUrl: file.rpc_url,
    deployment,
    workerLog: join(dir, "worker.log"),
    operator: (request: Parameters<typeof callOperator>[3]) => {
      const { url, keys } = read<OperatorFile>("operator.json");
      return callOperator((call) => fetch(call), url, localKey(keys, undefined), request);
    },
    faucet: await openFaucet({ rpcUrl: file.rpc_url, deployment }),
  };
  // Safe cast: the helpers of this test use these members only.
  return { stack: parts as unknown as TestStack, stop };
}

function read<File>(name: string): File {
  // Safe cast: the stack wrote the file.
  return JSON.parse(readFileSync(join(dir, name), "utf8")) as File;
}

it.skipIf(!hasHistory)(
  "goes on with the records of the last release",
  { timeout: 300_000 },
  async () => {
    const before = await startOldStack();
    const market = await openMarket(before.stack, 10n * AMOUNT);
    const { requester, maker, asset } = market;
    for (let trade = 0; trade < 3; trade++) {
      const { quote } = await quotedBid(market, AMOUNT);
      await requester.client.rfq.accept(quote);
    }
    await until("ranges to be sealed", START_MS, async () =>
      ((await operator(before.stack, "audit list", { kind: "journal_sealed" })) as { events: [] })
        .events.length > 0
        ? true
        : null,
    );
    const withdrawing = await withdrawalClient(before.stack, maker);
    const request = await requester.client.rfq.request({
      ...asset,
      amount: AMOUNT,
      side: "Bid",
      expires_in_secs: 3_600,
    });
    const quote = await maker.client.rfq.quote(
      { request_id: request.request_id, price: 500_000, expires_in_secs: 300 },
      SLOW_MACHINE,
    );
    const withdrawn = await withdrawing.custody.withdraw({
      client_withdrawal_id: "before-the-upgrade",
      amount: 1_000n,
      to_address: newAddress(),
    });
    const entries = await maker.client.custody.ledger().all();
    await before.stop();
    expect(existsSync(join(dir, "anvil-state.saved"))).toBe(true);

    const file = { port: Number(new URL(before.stack.baseUrl).port) };
    const rpcPort = Number(new URL(before.stack.rpcUrl).port);
    const modules = await bundledWorker();
    const stack = await startStack({ ...file, rpcPort, dir, keep: true, vars: SHORT, modules });
    stops.push(stack.stop);
    const match = await requester.client.rfq.accept(quote);
    expect(match).toMatchObject({ request_id: request.request_id, amount: AMOUNT });
    const settled = await until("the withdrawal to settle", 60_000, async () => {
      const found = await withdrawing.custody.withdrawal(withdrawn);
      return found.status === "settled" ? found : null;
    });
    expect(settled.withdrawal_id).toBe(withdrawn.withdrawal_id);
    expect(await paymentsOf(stack)).toHaveLength(1);
    const after = await maker.client.custody.ledger().all();
    expect(after.slice(-entries.length)).toEqual(entries);
    await until("a range to be sealed on the new schema", START_MS, async () => {
      await stack.runCron().catch(() => {});
      return (await journal(stack)).transfers > entries.length ? true : null;
    });
    expect(await journal(stack)).toMatchObject({ ok: true, discrepancies: [] });
    expect(await operator(stack, "reconcile")).toMatchObject({ differences: [] });
    expect(await operator(stack, "chain status")).toMatchObject({ alerts: [] });
  },
);

const journal = (stack: Pick<TestStack, "operator">) =>
  operator<JournalReport>(stack, "journal verify");
