/** The maker of the Python client's README trades on a real stack while its sockets are cut. */
import { spawn } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { FULL } from "../support/depth.ts";
import { pythonWithClient, readmePrograms } from "../support/node/python.ts";
import {
  fund,
  newAsset,
  newTrader,
  sharedStack,
  type TestStack,
  until,
} from "../support/node/stack.ts";
import { startTcpProxy } from "../support/node/tcp-proxy.ts";

/** The release run quotes for ten minutes. */
const DURATION_MS = FULL ? 600_000 : 4_000;
const CUT_EVERY_MS = FULL ? 7_000 : 1_500;
/** Longer than a stream takes to reconnect. */
const PATIENCE_MS = 3_000;
const WORK = resolve(".stack", `python-maker-${process.pid}`);
/**
 * What may meet a quote when a socket is cut: its deadline, its request or its protection ends. The
 * end of the test closes the stream.
 */
const PASSED = [
  "deadline",
  "no result",
  "request_not_open",
  "request_expired",
  "protection_tripped",
  "cancel_after_passed",
  "the stream is closed",
].join("|");
const EXPECTED = new RegExp(
  `^(quoted (Bid|Ask) \\d+ at \\d+|traded \\d+ at \\d+|passed .*(${PASSED}).*)$`,
);

let stack: TestStack;
beforeAll(async () => {
  stack = await sharedStack();
});
afterAll(() => rmSync(WORK, { recursive: true, force: true }));

it("the README's maker has 60 lines", () => {
  const [maker = ""] = readmePrograms().slice(-1);
  expect(maker).toContain("keep_quoted");
  expect(maker.trim().split("\n").length).toBeLessThanOrEqual(60);
});

it(
  "the README's maker quotes and trades while its sockets are cut",
  { timeout: DURATION_MS + 120_000 },
  async ({ skip }) => {
    const { python, env } = await pythonWithClient(skip);
    const asset = newAsset("venue_one");
    const [requester, maker] = [await newTrader(stack), await newTrader(stack)];
    await fund(stack, [
      { trader: requester, usdc: 1_000_000_000n },
      { trader: maker, usdc: 10_000_000n, tokens: { asset, amount: 1_000_000_000n } },
    ]);
    const key = await maker.session.auth.createApiKey({ label: "py", scopes: ["read", "trade"] });
    const proxy = await startTcpProxy(stack.baseUrl);
    mkdirSync(WORK, { recursive: true });
    writeFileSync(join(WORK, "maker.py"), readmePrograms().at(-1) ?? "");
    const settings = {
      RFQ_URL: proxy.baseUrl,
      RFQ_API_KEY_ID: key.api_key_id,
      RFQ_SECRET: key.secret,
    };
    const child = spawn(python, ["maker.py", "venue_one"], {
      cwd: WORK,
      env: { ...env, ...settings },
    });
    const bestOf = async ({ request_id }: { request_id: string }) => {
      const filter = { request_id, status: "open", limit: 1 } as const;
      const { items } = await requester.client.rfq.quotes(filter).page();
      return items[0] ?? null;
    };
    const accepted = (quote: { quote_id: string }) =>
      requester.client.rfq.accept(quote).then(
        () => true,
        () => false,
      );
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const ended = new Promise<number | null>((done) => child.once("close", done));
    // From the first quote on: what the maker calls before, it calls once.
    let endsAt = Infinity;
    let cutting: NodeJS.Timeout | undefined;
    let [rounds, quoted, trades] = [0, 0, 0];
    try {
      while (Date.now() < endsAt || trades === 0) {
        if (cutting !== undefined) rounds++;
        expect(child.exitCode, output).toBeNull();
        const terms = { ...asset, amount: 1_000n, side: "Bid" } as const;
        const request = await requester.client.rfq.request(terms);
        // The cut of a socket may have ended the quote, and the maker quotes a request once.
        const quote = await until("a quote", PATIENCE_MS, () => bestOf(request)).catch(() => null);
        if (quote === null) {
          await requester.client.rfq.cancelRequest(request);
          continue;
        }
        if (cutting === undefined) {
          endsAt = Date.now() + DURATION_MS;
          cutting = setInterval(() => proxy.sever(), CUT_EVERY_MS);
          rounds++;
        }
        quoted++;
        expect(quote.price).toBe(510_000);
        // Ten matches within a minute would trip the maker's protection.
        if (trades < 3 && (await accepted(quote))) trades++;
        else await requester.client.rfq.cancelRequest(request).catch(() => null);
      }
      await until(`its trades:\n${output}`, 30_000, async () =>
        (output.match(/^traded/gm) ?? []).length >= trades ? true : null,
      );
    } finally {
      clearInterval(cutting);
      child.kill("SIGINT");
      await ended;
      await proxy.stop();
    }
    const lines = output
      .slice(0, output.search(/Traceback|$(?![^])/))
      .trim()
      .split("\n");
    expect(lines.filter((line) => !EXPECTED.test(line))).toEqual([]);
    expect(quoted, output).toBeGreaterThan(rounds / 2);
  },
);
