import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Secret, TOTP } from "otpauth";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Address, createPublicClient, createWalletClient, type Hex, http } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import examples from "../../examples/README.md?raw";
import readme from "../../README.md?raw";
import { heldBy, mintCall } from "../../scripts/stack/tokens.ts";
import { deterministicDeployment } from "../../scripts/stack/deploy-contracts.ts";
import { DEMO_USERS } from "../../scripts/actors/users.ts";
import { ANVIL_ACCOUNT_KEYS } from "../../scripts/stack/faucet.ts";
import { freePort } from "../../scripts/stack/ports.ts";
import { signedOrder } from "../../scripts/stack/operator-call.ts";
import {
  type DemoUser,
  localKey,
  type StackFile,
  readOperatorFile,
  readStackFile,
} from "../../scripts/stack/stack-file.ts";
import { Client, type Quote } from "../../packages/client/src/index.ts";
import {
  type Script,
  alive,
  descendants,
  runScriptFile,
  untilPrinted,
} from "../support/node/processes.ts";
import { newAddress, newAsset, until } from "../support/node/stack.ts";
import { itInRelease } from "../support/depth.ts";

const dir = join(".stack", `test-dev-${process.pid}-${randomBytes(4).toString("hex")}`);
let script: Script;
let file: StackFile;

async function runDev(...args: string[]): Promise<Script> {
  return runScriptFile("scripts/dev.ts", {
    args,
    env: { PORT: String(await freePort()), RPC_PORT: String(await freePort()) },
  });
}

async function startDev(...args: string[]): Promise<void> {
  script = await runDev("--dir", dir, ...args);
  await untilPrinted(script, "Ctrl-C stops the stack");
  file = readStackFile(dir);
}

it("npm run smoke trades and trades back, and names the step that fails", async () => {
  const run = (...args: string[]) =>
    runScriptFile("scripts/smoke.ts", { args: ["--url", file.base_url, ...args] });
  const smoke = run("--trade");
  expect(await smoke.exited, smoke.output()).toBe(0);
  expect([...smoke.output().matchAll(/^ok +(.+?)  /gm)].map(([, name]) => name)).toEqual(
    "read login key signature socket request event quote cancel trade"
      .split(" ")
      .concat("trade back"),
  );
  const users = join(dir, "wrong-users.json");
  writeFileSync(users, JSON.stringify([{ email: "a@b.example", password: "x" }, DEMO_USERS[1]]));
  const failed = run("--users", users);
  expect(await failed.exited).toBe(1);
  expect(failed.output()).toContain("FAILED  login");
  // A local stack has no deployment that could be rolled back.
  expect(failed.output()).not.toContain("rollback");
});

beforeAll(() => startDev("--set", "WITHDRAWAL_MIN_UNITS=7"));
afterAll(async () => {
  script.child.kill("SIGKILL");
  await script.exited;
  rmSync(dir, { recursive: true, force: true });
});

async function taker(): Promise<Client> {
  return loginAs(file.users.find(({ role }) => role === "taker"));
}

async function loginAs(named: DemoUser | undefined): Promise<Client> {
  const user = named ?? expect.fail("stack.json does not name the user");
  return Client.login({ baseUrl: file.base_url, email: user.email, password: user.password });
}

/** A quote for an asset that the market maker must deposit first. */
async function quoteFor(client: Client, side: "Bid" | "Ask"): Promise<Quote> {
  const request = await client.rfq.request({
    ...newAsset("venue_three"),
    amount: 5_000_000n,
    side,
  });
  return until(
    () => `a quote for the ${side}: ${script.output()}`,
    30_000,
    async () => {
      const { items } = await client.rfq.quotes({ request_id: request.request_id }).page();
      return items[0] ?? null;
    },
  );
}

/** Makes the commands of the guides use this stack. */
function exportLine(): string {
  return `export RFQ_URL=${file.base_url} RPC_URL=${file.rpc_url} RFQ_DIR=${dir}`;
}

async function operator(...args: string[]): Promise<{ code: number | null; output: string }> {
  const command = runScriptFile("scripts/operator.ts", { args: [...args, "--dir", dir] });
  return { code: await command.exited, output: command.output() };
}

/** What `--json` printed. A slow command says before how long it has been running. */
const resultIn = (output: string): unknown => JSON.parse(output.slice(output.indexOf("{")));

it("runs operator commands only at the secret address of operator.json", async () => {
  const { url, keys } = readOperatorFile(dir);
  const audit = (target: string) =>
    fetch(target, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: signedOrder({ command: ["audit", "list"] }, localKey(keys, undefined)),
    });
  expect((await audit(url)).status).toBe(200);
  expect((await audit(new URL("/", url).href)).status).toBe(403);
  expect((await audit(`${url}x`)).status).toBe(403);
});

describe("npm run dev", () => {
  it("writes its addresses for other programs", () => {
    expect(file).toMatchObject({ chain: "local", chain_id: 31337 });
    expect(script.output()).toContain(`Ready on ${file.base_url}`);
    // What wrangler's library logs is not of this start.
    expect(script.output()).not.toMatch(/warning|missing|secrets/i);
    for (const address of [
      file.vault,
      file.usdc,
      ...Object.values(file.venues).map((venue) => venue.outcome_tokens),
    ]) {
      expect(address).toMatch(/^0x[0-9a-fA-F]{40}$/);
    }
  });

  it("has a second maker with funds that nothing else uses, and named markets", async () => {
    const { email, password } =
      file.users.find((user) => user.email.startsWith("maker-2@")) ?? expect.fail("no maker-2");
    const client = await Client.login({ baseUrl: file.base_url, email, password });
    expect((await client.custody.usdcBalance()).balance).toBe(100_000_000_000n);
    expect(await client.auth.apiKeys().all()).toEqual([]);
    const markets = await client.markets({ status: "open" }).all();
    expect(markets.length).toBeGreaterThanOrEqual(12);
  });

  it("prints the commands of the README unchanged", () => {
    const [, block = ""] = /^export RFQ_URL=.*?\n(.*?)^```$/ms.exec(readme) ?? [];
    const commands = block.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    expect(commands.length).toBeGreaterThan(5);
    expect(script.output()).toContain([exportLine(), ...commands].join("\n"));
  });

  it("applies the settings of --set", async () => {
    expect((await (await taker()).config()).limits).toMatchObject({ withdrawal_min_amount: "0x7" });
  });

  it("quotes the taker's requests for any asset and skips undeliverable amounts", async () => {
    const client = await taker();
    expect((await client.custody.usdcBalance()).balance).toBeGreaterThan(0n);
    for (const amount of [2n ** 256n - 1n, 2n ** 62n]) {
      for (const side of ["Bid", "Ask"] as const)
        await client.rfq.request({ ...newAsset("venue_three"), amount, side });
    }
    await until("the market maker to skip the requests", 10_000, async () =>
      script.output().split("more than this market maker").length === 5 ? true : null,
    );
    for (const side of ["Bid", "Ask"] as const) {
      const quote = await quoteFor(client, side);
      if (side === "Bid")
        expect(await client.rfq.accept({ quote_id: quote.quote_id })).toMatchObject({
          role: "requester",
        });
    }
  });

  it("takes the commands of the operator's tool", async () => {
    const created = await operator("user", "create", "--email", "new@dev.example", "--json");
    expect(created.code, created.output).toBe(0);
    // A slow machine shows the progress of the command first.
    expect(resultIn(created.output)).toMatchObject({
      ok: true,
      result: { user_id: expect.any(String) as string },
    });
    const rejected = await operator("user", "freeze", "--email", "nobody@dev.example");
    expect(rejected).toMatchObject({
      code: 1,
      output: expect.stringContaining("no user has the email address") as string,
    });
    const listed = await operator("audit", "list", "--limit", "5");
    expect(listed.output).toContain("user_created");
    const books = await operator("reconcile", "--json");
    expect(books.code, books.output).toBe(0);
  });

  it("sends a mistaken token on as the vault's admin", async () => {
    const { address: token, ...deploy } = deterministicDeployment("LocalUSDC", []);
    const [depositAddress] = await (await taker()).custody.depositAddresses();
    const from = depositAddress?.address ?? expect.fail("the taker has no deposit address");
    await sendAsAnyone([deploy, mintCall({ contract: token }, from as Address, 9n)]);
    const to = newAddress();
    const words = ["withdrawals", "rescue", "--token", token, "--from", from, "--to", to];
    const shown = await operator(...words, "--amount", "9", "--json");
    expect(resultIn(shown.output)).toMatchObject({
      ok: true,
      result: { held: "0", next: "grantRole", ready: true },
    });
    const sent = await operator(...words, "--amount", "9", "--send");
    expect(sent.code, sent.output).toBe(0);
    expect(sent.output).toContain("rescued  true");
    const again = await operator(...words, "--amount", "9", "--send");
    expect(again).toMatchObject({
      code: 1,
      output: expect.stringContaining("The vault and the address hold 0 of it") as string,
    });
    const chain = createPublicClient({ transport: http(file.rpc_url) });
    expect(await heldBy(chain, { contract: token }, to)).toBe(9n);
    const books = await operator("reconcile", "--json");
    expect(books.code, books.output).toBe(0);
  });

  it("runs every block of examples/README.md", async () => {
    const blocks = [...examples.matchAll(/^```bash\n(.*?)^```$/gms)].map(([, block = ""]) => block);
    expect(script.output()).toContain(`\n${exportLine()}\n`);
    const bash = spawn("bash", ["-eu"], { env: { ...process.env, NO_COLOR: "1" } });
    bash.stdin.end([exportLine(), ...blocks].join("\n"));
    let output = "";
    for (const stream of [bash.stdout, bash.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    expect(await new Promise((resolve) => bash.once("close", resolve)), output).toBe(0);
    for (const text of [
      '"credential":"api_key"',
      '"amount":"0x4c4b40"',
      '"status":"credited"',
      '"status":"settled"',
    ]) {
      expect(output).toContain(text);
    }
  });

  it("rejects a second stack in its directory", async () => {
    const second = await runDev("--dir", dir);
    expect(await second.exited).toBe(1);
    expect(second.output()).toContain(`already running in ${dir}`);
    expect(second.output()).toContain("another directory with --dir");
  });

  it("prints its usage for --help and for unknown options", async () => {
    const help = await runDev("--help");
    expect([await help.exited, help.output()]).toEqual([0, expect.stringContaining("--keep")]);
    for (const args of [
      ["--kep"],
      ["--set", "NO_SUCH_SETTING=1"],
      ["--set", "RATE_LIMITS=maybe"],
    ]) {
      const rejected = await runDev(...args);
      expect([await rejected.exited, rejected.output()]).toEqual([
        2,
        expect.stringContaining("npm run dev -- [--no-maker | --makers"),
      ]);
    }
  });

  it("stops every child process at Ctrl-C", async () => {
    const children = descendants(script.child.pid ?? 0);
    script.child.kill("SIGINT");
    // npm forwards a Ctrl-C that the terminal has sent already.
    script.child.kill("SIGINT");
    expect(await script.exited).toBe(130);
    await until("the children to end", 10_000, async () =>
      alive(children).length === 0 ? true : null,
    );
    const after = await operator("chain", "status");
    expect(after.code).toBe(3);
    expect(after.output).toContain("No stack is running here");
  });

  itInRelease("continues with --keep, unless the stack before it was killed", async () => {
    await startDev();
    const first = await taker();
    expect((await first.config()).limits).toMatchObject({ withdrawal_min_amount: "0x1" });
    await first.rfq.accept({ quote_id: (await quoteFor(first, "Bid")).quote_id });
    const second = await loginAs(DEMO_USERS[2]);
    const { password = "" } = DEMO_USERS[2] ?? {};
    const { secret } = await second.auth.startTotp({ password });
    const totp = new TOTP({ secret: Secret.fromBase32(secret) });
    await second.auth.confirmTotp({ totp_code: totp.generate() });
    const before = {
      balances: await first.custody.balances().all(),
      vault: file.vault,
      block: await blockNumber(),
    };
    // The whole process group, as a terminal signals it, so anvil receives the signal too.
    for (const pid of descendants(script.child.pid ?? 0)) process.kill(pid, "SIGINT");
    script.child.kill("SIGINT");
    expect(await script.exited).toBe(130);
    expect(script.output()).not.toContain("While stopping");

    await startDev("--keep");
    expect(script.output()).toContain("maker-2@demo.example is left alone");
    expect(script.output()).not.toContain("0 users");
    expect(file.vault).toBe(before.vault);
    expect(await blockNumber()).toBeGreaterThanOrEqual(before.block);
    const again = await taker();
    expect(await again.custody.balances().all()).toEqual(before.balances);
    // Needs the chain, because the market maker has none of the asset.
    await quoteFor(again, "Bid");
    script.child.kill("SIGKILL");
    await script.exited;
    const rejected = await runDev("--dir", dir, "--keep");
    expect([await rejected.exited, rejected.output()]).toEqual([
      1,
      expect.stringContaining("Start without --keep"),
    ]);
  });

  itInRelease("prints a block that trades without the market maker", async () => {
    await startDev("--no-maker");
    const [block = ""] = /^export RFQ_URL=[^]*?rfq\/accept.*$/m.exec(script.output()) ?? [];
    const bash = spawn("bash", ["-eu"], { env: { ...process.env, NO_COLOR: "1" } });
    bash.stdin.end(block);
    let output = "";
    for (const stream of [bash.stdout, bash.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    expect(await new Promise((resolve) => bash.once("close", resolve)), output).toBe(0);
    expect(output.trim().split("\n").at(-1)).toContain('"price":650000');
    expect(output).toContain('"match_id"');
  });
});

/** Sends calls from the published account that mints, and waits until they are mined. */
async function sendAsAnyone(calls: readonly { to: Address; data: Hex }[]): Promise<void> {
  const transport = http(file.rpc_url);
  const account = privateKeyToAccount(ANVIL_ACCOUNT_KEYS.faucet);
  const wallet = createWalletClient({ account, transport });
  const client = createPublicClient({ transport });
  for (const call of calls) {
    const hash = await wallet.sendTransaction({ ...call, chain: null, gas: 8_000_000n });
    expect((await client.waitForTransactionReceipt({ hash })).status).toBe("success");
  }
}

async function blockNumber(): Promise<number> {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "eth_blockNumber" });
  const response = await fetch(file.rpc_url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  return Number(((await response.json()) as { result: string }).result);
}
