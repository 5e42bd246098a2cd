/** `npm run dev -- --makers --takers`: people trade without anybody's hand, and end with the stack. */
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { Client, type Ticker } from "../../packages/client/src/index.ts";
import { freePort } from "../../scripts/stack/ports.ts";
import { readStackFile } from "../../scripts/stack/stack-file.ts";
import { alive, descendants, runScriptFile, untilPrinted } from "../support/node/processes.ts";
import { rounds } from "../support/depth.ts";
import { until } from "../support/node/stack.ts";

const dir = join(".stack", `test-live-${process.pid}-${randomBytes(4).toString("hex")}`);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const TRADES = rounds(3, 20);

it(
  "trades at plausible prices until the stack ends",
  { timeout: 180_000 + TRADES * 10_000 },
  async () => {
    const script = runScriptFile("scripts/dev.ts", {
      args: ["--dir", dir, "--makers", "5", "--takers", "6"],
      env: { PORT: String(await freePort()), RPC_PORT: String(await freePort()) },
    });
    try {
      await untilPrinted(script, "Ctrl-C stops the stack");
      const { base_url: baseUrl, users } = readStackFile(dir);
      const reader = await Client.login({ baseUrl, ...(users[0] ?? expect.fail("no users")) });
      const traded = await until(
        "trades in two markets",
        60_000,
        async (): Promise<Ticker[] | null> => {
          const tickers = await reader.rfq.tickers().all();
          return tickers.length >= 2 ? tickers : null;
        },
      );
      for (const { last_price } of traded) {
        expect(last_price).toBeGreaterThanOrEqual(30_000);
        expect(last_price).toBeLessThanOrEqual(970_000);
      }
      // What people copy trades with these makers, too.
      const [block = ""] = /^export RFQ_URL=[^]*?rfq\/accept.*$/m.exec(script.output()) ?? [];
      const pasted = await bash(`for run in $(seq ${TRADES}); do\n${block}\ndone`);
      expect(pasted.match(/"match_id"/g), pasted).toHaveLength(TRADES);
      const key = await reader.auth.createApiKey({ label: "taker", scopes: ["read", "trade"] });
      const taker = "node examples/taker.ts venue_one 0x1 1000000 Bid";
      const taken = await bash(`for run in $(seq ${TRADES}); do ${taker}; done`, {
        RFQ_URL: baseUrl,
        RFQ_API_KEY_ID: key.api_key_id,
        RFQ_SECRET: key.secret,
        WAIT_SECS: "2",
      });
      expect(taken.match(/^matched: /gm), taken).toHaveLength(TRADES);
      const processes = descendants(script.child.pid ?? 0);
      script.child.kill("SIGINT");
      await script.exited;
      expect(alive(processes)).toEqual([]);
    } finally {
      script.child.kill("SIGKILL");
    }
  },
);

/** Runs commands in bash until one fails. Returns what they print. */
async function bash(commands: string, env: Record<string, string> = {}): Promise<string> {
  const child = spawn("bash", ["-eu"], { env: { ...process.env, NO_COLOR: "1", ...env } });
  child.stdin.end(commands);
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  expect(await new Promise((resolve) => child.once("close", resolve)), output).toBe(0);
  return output;
}
