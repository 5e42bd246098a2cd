/**
 * How fast the sealer catches up after an outage: transfers sealed, and deleted from the database,
 * in a second, against what 300 quotes a second make. Cron, which starts the sealer, runs only when
 * the backlog is there, and nothing else happens then.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Bench, number } from "./figures.ts";
import { drive } from "./load.ts";
import { type Market, openMarket, openRequests, quoteFields, succeeded } from "./market.ts";
import { signed } from "./people.ts";
import { type BenchStack, startBenchStack } from "./stack.ts";

const MAKERS = 16;
const REQUESTS = 64;
const QUOTES_PER_CALL = 50;
const CALLS_PER_MAKER = 20;
const LIFE_SECS = 5;
/** Records and transfers are sealed 5 s after they ended, and released 5 s after the delivery. */
const DIVISOR = 720;
const COLD_MS = 6_000;
/** A reserve and a release for each of 300 quotes. */
const TRANSFERS_PER_SEC = 600;
const TARGET = 10;
const POLL_MS = 100;
const PATIENCE_MS = 600_000;

type Progress = { readonly open: number; readonly sealed: number; readonly left: number };

export const benchCatchUp: Bench = async ({ quick, say, onStop }) => {
  const settings = { HOT_WINDOWS_DIVISOR: String(DIVISOR), RFQ_COMMAND_MAX_WAIT_MS: "60000" };
  const stack = await startBenchStack({ settings, cron: true });
  onStop(stack.stop);
  try {
    const market = await openMarket(stack, MAKERS);
    const requestIds = await openRequests(stack, market, REQUESTS);
    for (let round = 0; round < (quick ? 1 : 8); round++) {
      await quoteAll(stack, market, requestIds, round);
      await until(stack, ({ open }) => open === 0);
    }
    await sleep(COLD_MS);
    const behind = (await progressOf(stack)).left;
    say(`  ${number(behind)} transfers wait`);
    const started = performance.now();
    const elapsed = () => (performance.now() - started) / 1_000;
    await stack.runCron();
    await until(stack, ({ sealed }) => sealed >= behind);
    const sealing = elapsed();
    // The newest transfer stays, and with it the other one of its quote.
    await until(stack, ({ left }) => left <= 2);
    const releasing = elapsed();
    const peer = { name: "300 quotes/s", value: TRANSFERS_PER_SEC };
    const target = { atLeast: TARGET };
    return [
      { what: "transfers sealed", unit: "/s", ours: behind / sealing, peer, target },
      {
        what: "transfers sealed and released",
        unit: "/s",
        ours: behind / releasing,
        peer,
        note: "with 5 s between delivery and release",
      },
    ];
  } finally {
    await stack.stop();
  }
};

async function quoteAll(
  stack: BenchStack,
  { makers }: Market,
  requestIds: readonly string[],
  round: number,
): Promise<void> {
  const quotesOf = (maker: number, call: number) =>
    Array.from({ length: QUOTES_PER_CALL }, (_, n) => ({
      ...quoteFields(requestIds[(maker + call + n) % REQUESTS] ?? "", LIFE_SECS),
      idempotency_key: `bench-${round}-${call}-${n}`,
    }));
  const lanes = await Promise.all(
    makers.map((maker, index) =>
      Promise.all(
        Array.from({ length: CALLS_PER_MAKER }, (_, call) =>
          signed(maker, "POST", "/rfq/quotes", { quotes: quotesOf(index, call) }),
        ),
      ),
    ),
  );
  succeeded(await drive({ port: stack.port, lanes }));
}

async function until(stack: BenchStack, isReached: (progress: Progress) => boolean): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!isReached(await progressOf(stack))) {
    if (performance.now() > deadline)
      throw new Error(`no end after ten minutes: ${stack.failures()[0] ?? "no failure"}`);
    await sleep(POLL_MS);
  }
}

async function progressOf({ db }: BenchStack): Promise<Progress> {
  const row = await db
    .prepare(
      `SELECT (SELECT count(*) FROM quotes WHERE status = 'open') AS open,
        coalesce((SELECT sum(transfers) FROM journal_seals), 0) AS sealed,
        (SELECT count(*) FROM transfers) AS "left"`,
    )
    .first<Progress>();
  if (row === null) throw new Error("no row");
  return row;
}
