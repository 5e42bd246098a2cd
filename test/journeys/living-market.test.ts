/** `npm run dev -- --makers --takers`: people trade without anybody's hand, and end with the stack. */
import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { Client, type Ticker } from "../../packages/client/src/index.ts";
import { freePort } from "../../scripts/stack/ports.ts";
import { readStackFile } from "../../scripts/stack/stack-file.ts";
import { alive, descendants, runScriptFile, untilPrinted } from "../support/node/processes.ts";
import { until } from "../support/node/stack.ts";

const dir = join(".stack", `test-live-${process.pid}-${randomBytes(4).toString("hex")}`);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

it("trades at plausible prices until the stack ends", { timeout: 180_000 }, async () => {
  const script = runScriptFile("scripts/dev.ts", {
    args: ["--dir", dir, "--makers", "2", "--takers", "6"],
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
        const lists = await Promise.all(
          ["venue_one", "venue_two", "venue_three"].map((venue_id) =>
            reader.rfq.tickers({ venue_id }),
          ),
        );
        const tickers = lists.flatMap(({ items }) => items);
        return tickers.length >= 2 ? tickers : null;
      },
    );
    for (const { last_price } of traded) {
      expect(last_price).toBeGreaterThanOrEqual(30_000);
      expect(last_price).toBeLessThanOrEqual(970_000);
    }
    const processes = descendants(script.child.pid ?? 0);
    script.child.kill("SIGINT");
    await script.exited;
    expect(alive(processes)).toEqual([]);
  } finally {
    script.child.kill("SIGKILL");
  }
});
