import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../scripts/stack/ports.ts";
import { type StackFile, readStackFile } from "../../scripts/stack/stack-file.ts";
import { Client } from "../../src/client/index.ts";
import { type ScriptRun, alive, descendants, runScriptFile, untilPrinted } from "../support/node/processes.ts";
import { newAsset, until } from "../support/node/stack.ts";

const dir = join(".stack", `test-dev-${process.pid}-${randomBytes(4).toString("hex")}`);
let run: ScriptRun;
let file: StackFile;

beforeAll(async () => {
  run = runScriptFile("scripts/dev.ts", {
    args: ["--dir", dir],
    env: { PORT: String(await freePort()), RPC_PORT: String(await freePort()) },
  });
  await untilPrinted(run, "Ready on http://127.0.0.1:", 60_000);
  file = readStackFile(dir);
});
afterAll(async () => {
  run.child.kill("SIGKILL");
  await run.exited;
  rmSync(dir, { recursive: true, force: true });
});

async function taker(): Promise<Client> {
  const user = file.users.find(({ role }) => role === "taker") ?? expect.fail("stack.json names no taker");
  return Client.login({ baseUrl: file.base_url, email: user.email, password: user.password });
}

async function operator(...args: string[]): Promise<{ code: number | null; output: string }> {
  const command = runScriptFile("scripts/operator.ts", { args: [...args, "--dir", dir] });
  return { code: await command.exited, output: command.output() };
}

describe("npm run dev", () => {
  it("tells other programs where everything is", () => {
    expect(file).toMatchObject({ chain: "local", chain_id: 31337 });
    expect(run.output()).toContain(`Ready on ${file.base_url}`);
    for (const address of [file.vault, file.usdc, ...Object.values(file.venues).map((venue) => venue.outcome_tokens)]) {
      expect(address).toMatch(/^0x[0-9a-fA-F]{40}$/);
    }
  });

  it("has a taker with money whose requests are quoted, whatever the asset", async () => {
    const client = await taker();
    expect((await client.custody.usdcBalance()).balance).toBeGreaterThan(0n);
    for (const side of ["Bid", "Ask"] as const) {
      const request = await client.rfq.request({ ...newAsset("venue_three"), amount: 5_000_000n, side });
      const [quote] = await until(`a quote for the ${side}`, 30_000, async () => {
        const { items } = await client.rfq.quotes({ request_id: request.request_id }).page();
        return items.length > 0 ? items : null;
      });
      if (side === "Bid" && quote) expect(await client.rfq.accept({ quote_id: quote.quote_id })).toMatchObject({ role: "requester" });
    }
  });

  it("is what the operator's tool works on", async () => {
    const created = await operator("user", "create", "--email", "new@dev.example", "--json");
    expect(created.code, created.output).toBe(0);
    expect(JSON.parse(created.output)).toMatchObject({ ok: true, result: { user_id: expect.any(String) as string } });
    const refused = await operator("user", "freeze", "--email", "nobody@dev.example");
    expect(refused).toMatchObject({ code: 1, output: expect.stringContaining("no user has this email") as string });
    const listed = await operator("audit", "list", "--limit", "5");
    expect(listed.output).toContain("user_created");
    const books = await operator("reconcile", "--json");
    expect(books.code, books.output).toBe(0);
  });

  it("does not let a second stack into its directory", async () => {
    const second = runScriptFile("scripts/dev.ts", {
      args: ["--dir", dir],
      env: { PORT: String(await freePort()), RPC_PORT: String(await freePort()) },
    });
    expect(await second.exited).toBe(1);
    expect(second.output()).toContain(`already running in ${dir}`);
  });

  it("ends at Ctrl-C with everything it started, and is found no more", async () => {
    const children = descendants(run.child.pid ?? 0);
    run.child.kill("SIGINT");
    expect(await run.exited).toBe(130);
    await until("the children to end", 10_000, async () => (alive(children).length === 0 ? true : null));
    const after = await operator("chain", "status");
    expect(after.code).toBe(3);
    expect(after.output).toContain("No stack is running here");
  });
});
