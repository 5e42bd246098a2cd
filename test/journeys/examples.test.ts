/** Runs every example as a process of its own, with its arguments and the environment only. */
import { spawn, spawnSync } from "node:child_process";
import { afterAll, beforeAll, expect, it } from "vitest";
import { inRelease, itDeeper } from "../support/depth.ts";
import { pythonWithClient } from "../support/node/python.ts";
import {
  fund,
  newAsset,
  newTrader,
  sharedStack,
  type TestStack,
  type Trader,
  until,
  SLOW_MACHINE,
} from "../support/node/stack.ts";

let stack: TestStack;
let credentials: Map<Trader, Record<string, string>>;
/** For examples that send nothing that takes effect. */
let bystander: Trader;
beforeAll(async () => {
  stack = await sharedStack();
  credentials = new Map();
  bystander = await anyTrader();
});

/** Other journeys use the stack, and their makers would quote what is open. */
afterAll(async () => {
  for (const { client } of traders)
    for (const request of (await client.rfq.myRequests().page()).items)
      await client.rfq.cancelRequest(request);
});

const traders: Trader[] = [];
async function anyTrader(): Promise<Trader> {
  const made = await newTrader(stack);
  traders.push(made);
  return made;
}

const has = (program: string) => spawnSync(program, ["--version"]).status === 0;
const hasOpenssl = spawnSync("openssl", ["version"]).status === 0;

async function environmentOf(trader: Trader): Promise<Record<string, string>> {
  const known = credentials.get(trader);
  if (known !== undefined) return known;
  const key = await trader.session.auth.createApiKey({
    label: "example",
    scopes: ["read", "trade"],
  });
  const made = { RFQ_URL: stack.baseUrl, RFQ_API_KEY_ID: key.api_key_id, RFQ_SECRET: key.secret };
  credentials.set(trader, made);
  return made;
}

async function run(
  trader: Trader,
  command: readonly string[],
  settings: Record<string, string | undefined> = {},
) {
  const [program = "", ...args] = command;
  const child = spawn(program, args, {
    env: { ...process.env, ...(await environmentOf(trader)), ...settings },
  });
  const ran = {
    output: "",
    child,
    ended: new Promise<number | null>((done) => child.once("close", done)),
  };
  child.stdout.on("data", (chunk: Buffer) => (ran.output += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (ran.output += chunk.toString()));
  return ran;
}

it("the maker and taker trade within the maker's inventory limit", async () => {
  const asset = newAsset("venue_one");
  const [requester, maker] = [await anyTrader(), await anyTrader()];
  await fund(stack, [
    { trader: requester, usdc: 10_000_000n, tokens: { asset, amount: 5_000_000n } },
    { trader: maker, usdc: 10_000_000n, tokens: { asset, amount: 1_100_000n } },
  ]);
  const making = await run(maker, [process.execPath, "examples/market-maker.ts", "venue_one"], {
    MAX_POSITION: "3000000",
  });
  try {
    await until(
      () => `the maker to quote: ${making.output}`,
      60_000,
      async () => (making.output.includes("quoting venue_one") ? true : null),
    );
    // Another program of the same maker makes a trade that is not the example's.
    const other = await requester.client.rfq.request({ ...asset, amount: 100_000n, side: "Bid" });
    const cheaper = await maker.client.rfq.quote({ ...other, price: 400_000 }, SLOW_MACHINE);
    await requester.client.rfq.accept(cheaper);

    const take = (amount: string, side: string) =>
      run(
        requester,
        [process.execPath, "examples/taker.ts", asset.venue_id, asset.asset_id, amount, side],
        { WAIT_SECS: "2" },
      );

    const buys = await take("1000000", "Bid");
    expect([await buys.ended, buys.output]).toEqual([
      0,
      expect.stringContaining("matched: 1000000 for 510000 USDC units at 0.51"),
    ]);
    expect(buys.output).toContain("waiting 2 s for quotes");
    const sells = await take("2500000", "Ask");
    expect([await sells.ended, sells.output]).toEqual([0, expect.stringContaining("at 0.49")]);
    const tooMuch = await take("600000", "Ask");
    expect([await tooMuch.ended, tooMuch.output]).toEqual([
      1,
      expect.stringContaining("no quote within the limit"),
    ]);
    expect(making.output).toContain("over the inventory limit");

    const open = await requester.client.rfq.request({ ...asset, amount: 100_000n, side: "Bid" });
    await until("a quote", 10_000, async () =>
      (await requester.client.rfq.quotes({ request_id: open.request_id }).all()).length > 0
        ? true
        : null,
    );
  } finally {
    making.child.kill("SIGINT");
  }
  expect(await making.ended).toBe(0);
  expect(making.output).toContain("stopped: 1 quotes cancelled");
  expect(making.output.match(/traded: .*/g)).toEqual([
    "traded: Bid 1000000 at 510000",
    "traded: Ask 2500000 at 490000",
  ]);
  expect(await maker.client.rfq.myQuotes({ status: "open" }).all()).toEqual([]);
  expect((await maker.client.custody.usdcBalance()).pending_balance).toBe(0n);
});

itDeeper("the maker replaces its open quotes when a trade has moved its inventory", async () => {
  const asset = newAsset("venue_one");
  const [requester, maker] = [await anyTrader(), await anyTrader()];
  await fund(stack, [
    { trader: requester, usdc: 10_000_000n },
    { trader: maker, tokens: { asset, amount: 4_000_000n } },
  ]);
  const making = await run(maker, [process.execPath, "examples/market-maker.ts", "venue_one"], {
    MAX_POSITION: "4000000",
    INVENTORY_SKEW: "40000",
  });
  try {
    await until(
      () => `the maker to quote: ${making.output}`,
      60_000,
      async () => (making.output.includes("quoting venue_one") ? true : null),
    );
    const ask = () => requester.client.rfq.request({ ...asset, amount: 1_000_000n, side: "Bid" });
    const quoteOf = (request_id: string, price: number) =>
      until(
        () => `a quote at ${price}: ${making.output}`,
        10_000,
        async () => {
          const quotes = await requester.client.rfq.quotes({ request_id, status: "open" }).all();
          return quotes.length === 1 && quotes[0]?.price === price ? quotes[0] : null;
        },
      );
    const [first, second] = [await ask(), await ask()];
    // It holds all of MAX_POSITION, so that its price of 0.51 is 0.04 lower.
    await quoteOf(second.request_id, 470_000);
    await requester.client.rfq.accept(await quoteOf(first.request_id, 470_000));
    await quoteOf(second.request_id, 480_000);
  } finally {
    making.child.kill("SIGTERM");
  }
  expect(await making.ended).toBe(0);
  expect(making.output).toContain("stopped: 1 quotes cancelled");
});

const signers: readonly [name: string, present: boolean, command: readonly string[]][] = [
  ["sign.sh", has("bash") && has("curl") && hasOpenssl, ["bash", "examples/sign.sh"]],
  ["sign.py", has("python3"), ["python3", "examples/sign.py"]],
];

it.each(signers)(
  "%s signs a query, a body with any characters, and no input",
  async (_name, present, command) => {
    if (!present) return console.warn(`skipped: ${command[0]} or what it needs is not installed`);
    const trader = await anyTrader();
    const asset = newAsset("venue_two");
    const whoami = await run(trader, [...command, "GET", "/auth/whoami"]);
    expect([await whoami.ended, JSON.parse(whoami.output)]).toMatchObject([
      0,
      { user_id: trader.userId, credential: "api_key" },
    ]);
    const ledger = await run(trader, [
      ...command,
      "GET",
      "/custody/get-ledger?limit=5&from=2026-01-01T00:00:00%2B00:00",
    ]);
    expect([await ledger.ended, JSON.parse(ledger.output)]).toEqual([
      0,
      { items: [], next_cursor: null },
    ]);
    const body = JSON.stringify({
      ...asset,
      amount: "1000000",
      side: "Bid",
      idempotency_key: "$'\"`\\x%!",
    });
    const requested = await run(trader, [...command, "POST", "/rfq/request", body]);
    expect([await requested.ended, JSON.parse(requested.output)]).toMatchObject([
      0,
      { ...asset, amount: "0xf4240", status: "open" },
    ]);
    const rejected = await run(trader, [...command, "POST", "/rfq/accept", '{"quote_id":"é"}']);
    expect(await rejected.ended).not.toBe(0);
    expect(rejected.output).toContain("invalid_request");
  },
);

inRelease(() => {
  it(
    "maker.py quotes, reconnects, and cancels its quotes when it stops",
    {
      timeout: 240_000,
    },
    async ({ skip }) => {
      const { python, env } = await pythonWithClient(skip);
      const asset = newAsset("venue_three");
      const [requester, maker] = [await anyTrader(), await anyTrader()];
      await fund(stack, [
        { trader: maker, usdc: 10_000_000n },
        { trader: requester, tokens: { asset, amount: 1_000_000n } },
      ]);
      const making = await run(maker, [python, "examples/maker.py", "venue_three"], env);
      const quotesOf = async () => {
        const { request_id } = await requester.client.rfq.request({
          ...asset,
          amount: 1_000_000n,
          side: "Ask",
        });
        return until(
          () => `a quote: ${making.output}`,
          30_000,
          async () => {
            const quotes = await requester.client.rfq.quotes({ request_id }).all();
            return quotes.length > 0 ? quotes : null;
          },
        );
      };
      try {
        expect(await quotesOf()).toMatchObject([{ price: 490_000 }]);
        await stack.killWorkerd();
        expect(await quotesOf()).toMatchObject([{ price: 490_000 }]);
        const [sold] = await quotesOf();
        if (sold === undefined) throw new Error("unreachable: there is a quote");
        await requester.client.rfq.accept({ quote_id: sold.quote_id });
        await until(
          () => `its own trade: ${making.output}`,
          10_000,
          async () => (making.output.includes("traded: Ask 1000000 at 490000") ? true : null),
        );
      } finally {
        making.child.kill("SIGTERM");
      }
      // The quote of before the kill may have ended with the lost connection.
      expect([await making.ended, making.output]).toEqual([
        0,
        expect.stringMatching(/stopped: [12] quotes cancelled/),
      ]);
      expect(await maker.client.rfq.myQuotes({ status: "open" }).all()).toEqual([]);
    },
  );

  it(
    "maker.py keeps its inventory limit and replaces its quotes after a trade",
    {
      timeout: 240_000,
    },
    async ({ skip }) => {
      const { python, env } = await pythonWithClient(skip);
      const asset = newAsset("venue_one");
      const [requester, maker] = [await anyTrader(), await anyTrader()];
      await fund(stack, [
        { trader: requester, usdc: 10_000_000n, tokens: { asset, amount: 5_000_000n } },
        { trader: maker, usdc: 10_000_000n, tokens: { asset, amount: 4_000_000n } },
      ]);
      const making = await run(maker, [python, "examples/maker.py", "venue_one"], {
        ...env,
        MAX_POSITION: "4000000",
        INVENTORY_SKEW: "40000",
      });
      try {
        await until(
          () => `the maker to quote: ${making.output}`,
          60_000,
          async () => (making.output.includes("quoting venue_one") ? true : null),
        );
        const ask = (side: "Bid" | "Ask", amount: bigint) =>
          requester.client.rfq.request({ ...asset, amount, side });
        const quoteOf = (request_id: string, price: number) =>
          until(
            () => `a quote at ${price}: ${making.output}`,
            10_000,
            async () => {
              const quotes = await requester.client.rfq
                .quotes({ request_id, status: "open" })
                .all();
              return quotes.length === 1 && quotes[0]?.price === price ? quotes[0] : null;
            },
          );
        const tooMuch = await ask("Ask", 1_000_000n);
        await until(
          () => `the limit: ${making.output}`,
          10_000,
          async () => (making.output.includes("passed: 1000000 of") ? true : null),
        );
        // The maker tries again, and the limit leaves room after the trade.
        await requester.client.rfq.cancelRequest(tooMuch);
        const [first, second] = [await ask("Bid", 1_000_000n), await ask("Bid", 1_000_000n)];
        // It holds all of MAX_POSITION, so that its price of 0.51 is 0.04 lower.
        await quoteOf(second.request_id, 470_000);
        await requester.client.rfq.accept(await quoteOf(first.request_id, 470_000));
        await quoteOf(second.request_id, 480_000);
        const sized = await requester.client.rfq.request({
          ...asset,
          usdc_amount: 300_000n,
          side: "Ask",
        });
        // 0.49 less three quarters of the skew, and within the limit at that price.
        await quoteOf(sized.request_id, 460_000);
      } finally {
        making.child.kill("SIGTERM");
      }
      expect([await making.ended, making.output]).toEqual([
        0,
        expect.stringContaining("stopped: 2 quotes cancelled"),
      ]);
    },
  );
});

const wrongCalls: readonly [
  what: string,
  command: string,
  settings: Record<string, string>,
  message: string,
][] = [
  ["sign.sh without arguments", "bash examples/sign.sh", {}, "usage: examples/sign.sh"],
  [
    "sign.sh without a secret",
    "bash examples/sign.sh GET /time",
    { RFQ_SECRET: "" },
    "Set RFQ_SECRET",
  ],
  [
    "sign.py without arguments",
    "python3 examples/sign.py",
    {},
    "python3 examples/sign.py <METHOD>",
  ],
  [
    "sign.py without a secret",
    "python3 examples/sign.py GET /time",
    { RFQ_SECRET: "" },
    "Set RFQ_SECRET",
  ],
  [
    "a taker without a secret",
    "node examples/taker.ts venue_one 0x1 1 Bid",
    { RFQ_SECRET: "" },
    "Set RFQ_SECRET",
  ],
  [
    "a taker with a wait that is not a number",
    "node examples/taker.ts venue_one 0x1 1 Bid",
    { WAIT_SECS: "abc" },
    "WAIT_SECS",
  ],
  [
    "a taker with a limit that is not a price",
    "node examples/taker.ts venue_one 0x1 1 Bid",
    { LIMIT_PRICE: "0.5" },
    "LIMIT_PRICE",
  ],
  [
    "a taker with an amount of zero",
    "node examples/taker.ts venue_one 0x1 0 Bid",
    {},
    'The amount is "0".',
  ],
  ["a taker without arguments", "node examples/taker.ts", {}, "usage: npx node examples/taker.ts"],
  [
    "a maker with a spread beyond 1",
    "node examples/market-maker.ts venue_one",
    { HALF_SPREAD: "600000" },
    "HALF_SPREAD",
  ],
];

it.each(wrongCalls)(
  "%s prints the reason and sends nothing",
  async (_what, command, settings, message) => {
    const [program = "", ...args] = command.split(" ");
    if (program !== "node" && !has(program))
      return console.warn(`skipped: ${program} is not installed`);
    const ran = await run(
      bystander,
      [program === "node" ? process.execPath : program, ...args],
      settings,
    );
    expect([await ran.ended, ran.output]).toEqual([2, expect.stringContaining(message)]);
  },
);

inRelease(() => {
  it("maker.py takes its venues from the service", { timeout: 240_000 }, async ({ skip }) => {
    const { python, env } = await pythonWithClient(skip);
    const ran = await run(bystander, [python, "examples/maker.py", "venue_nine"], env);
    expect(await ran.ended).toBe(1);
    expect(ran.output).toContain("body.venue_id");
  });
});

it("a taker whose request is rejected prints the reason in one line", async () => {
  const command = [process.execPath, "examples/taker.ts", "venue_one", "not-hex", "1", "Bid"];
  const ran = await run(bystander, command);
  expect(await ran.ended).toBe(1);
  expect(ran.output).toMatch(/^POST \/rfq\/request: 400 invalid_request: .*\n$/);
});
