/**
 * Prints the tables of docs/costs.md: what each verb costs by D1's own meter, and what a month
 * costs at a steady rate of quotes. Counts do not depend on the machine's load.
 */
import { randomBytes } from "node:crypto";
import { getAddress } from "viem";
import { announceDeposits } from "../src/custody/custody-events.ts";
import { creditConfirmed } from "../src/custody/watcher/credit-deposit.ts";
import { recordDeposits, type SeenTransfer } from "../src/custody/watcher/detect-deposits.ts";
import { commitOrThrow, newGroup } from "../src/platform/commit.ts";
import type { Config } from "../src/platform/config.ts";
import { TRUE } from "../src/platform/sql.ts";
import { uuidv7 } from "../src/platform/uuid.ts";
import { type Bench, number } from "./figures.ts";
import { drive } from "./load.ts";
import { openMarket, succeeded } from "./market.ts";
import { type Loads, measureVerbs } from "./network.ts";
import { loginRequest, makeLogins, makePeople, signed } from "./people.ts";
import { type Bill, billOf, dollarsOf, type Month } from "./prices.ts";
import { PATIENT } from "./quote-loads.ts";
import { type BenchStack, type Meter, NOTHING_BILLED } from "./stack.ts";
import { acceptOneOfThree, livesOf, loseQuotes, trim } from "./storage.ts";

const CALLS = 40;
const LIVES = 1_000;
const ACCEPTS = 100;
const RATES = [1, 30, 300];
const MONTH_SECS = 30 * 86_400;
/** As the sealer does: at least every ten minutes, and 10 000 transfers in a seal. */
const SEAL_SECS = 600;
const TRANSFERS_PER_SEAL = 10_000;
/** An assumption: the users with a block in a seal. The history of each reads the seal's footer. */
const USERS_PER_SEAL = 40;
/** Read back when written, read for its release, and its footer for the list of histories. */
const READS_PER_SEAL = 3;
/** Of a quote in R2 (test/archive/seal-size.node.test.ts). */
const SEALED_BYTES = 57;
/**
 * Events leave D1 within two hours, all else of a quote before, keys within 30. For dollars only.
 */
const HOT_SECS = 2 * 3_600;
const KEY_BYTES = 100;
const KEY_SECS = 30 * 3_600;

export const benchCosts: Bench = async ({ quick, say, start }) => {
  const stack = await start({ meter: true, settings: PATIENT });
  const loads: Loads = [
    { lanes: 4, each: quick ? 3 : 20 },
    { lanes: 64, each: quick ? 2 : 3 },
  ];
  const rfq = (await measureVerbs(stack, loads)).map(({ verb, bill }) => ({ verb, bill }));
  sayVerbs(say, [
    ...rfq,
    { verb: "POST login", bill: await logins(stack) },
    { verb: "POST withdraw, the order alone", bill: await withdrawals(stack) },
    { verb: "a deposit, recorded and credited", bill: await deposits(stack) },
  ]);
  const life = await lifeOf(stack);
  say(
    `\n  a quote's life: ${number(life.rowsWritten)} rows written, ` +
      `${number(life.rowsRead)} read; an accept of one among three: ` +
      `${number(life.rowsOfAccept)} rows written\n`,
  );
  sayMonths(say, life);
  return [];
};

function sayVerbs(
  say: (line: string) => void,
  verbs: readonly { readonly verb: string; readonly bill: Bill }[],
): void {
  say("| verb | requests | object calls | D1 calls | rows read | rows written | dollars |");
  say("|---|---:|---:|---:|---:|---:|---:|");
  const meters = ["requests", "objectCalls", "d1Calls", "rowsRead", "rowsWritten"] as const;
  for (const { verb, bill } of verbs) {
    const each = meters.map((name: keyof Meter) => number(bill.meter[name] / bill.calls));
    say(`| ${verb} | ${each.join(" | ")} | ${number(dollarsOf(bill))} |`);
  }
}

type Life = Awaited<ReturnType<typeof lifeOf>>;

async function lifeOf(stack: BenchStack) {
  const market = await openMarket(stack, 2);
  await loseQuotes(stack, market, LIVES / 5);
  await trim(stack);
  const sizeBefore = await sizeOf(stack);
  const { rowsWritten, rowsRead, kept } = await livesOf(stack, market, LIVES, () => sizeOf(stack));
  const accepts = await acceptOneOfThree(stack, market, ACCEPTS);
  return {
    rowsWritten: rowsWritten / LIVES,
    rowsRead: rowsRead / LIVES,
    rowsOfAccept: accepts.rowsWritten / ACCEPTS,
    bytes: (kept - sizeBefore) / LIVES,
  };
}

async function sizeOf(stack: BenchStack): Promise<number> {
  const { meta } = await stack.db.prepare("SELECT 1").run();
  return meta.size_after;
}

function sayMonths(say: (line: string) => void, life: Life): void {
  say("| quotes a second | rows written | rows | requests | storage and R2 | a month |");
  say("|---:|---:|---:|---:|---:|---:|");
  for (const rate of RATES) {
    const month = monthAt(rate, life);
    const { rows, requests, storage, sum } = billOf(month);
    const dollars = [rows, requests, storage, sum].map((amount) => number(Math.round(amount)));
    say(
      `| ${rate} | ${number(Math.round(month.rowsWritten / 1e6))} million | ` +
        `${dollars.join(" | ")} |`,
    );
  }
}

function monthAt(rate: number, life: Life): Month {
  const quotes = rate * MONTH_SECS;
  const seals = Math.max(MONTH_SECS / SEAL_SECS, (2 * quotes) / TRANSFERS_PER_SEAL);
  return {
    requests: quotes,
    objectCalls: quotes,
    rowsRead: quotes * life.rowsRead,
    rowsWritten: quotes * life.rowsWritten,
    r2Writes: seals,
    r2Reads: seals * (READS_PER_SEAL + USERS_PER_SEAL),
    d1Gb: (rate * (life.bytes * HOT_SECS + KEY_BYTES * KEY_SECS)) / 1e9,
    r2Gb: (quotes * SEALED_BYTES) / 1e9,
  };
}

async function logins(stack: BenchStack): Promise<Bill> {
  const password = "correct horse battery staple";
  const emails = await makeLogins(stack, CALLS, password);
  return billed(
    stack,
    emails.map((email) => loginRequest({ email, password })),
  );
}

async function withdrawals(stack: BenchStack): Promise<Bill> {
  const people = await makePeople(stack, CALLS, ["usdc"], { scopes: "read,withdraw" });
  const to = getAddress(`0x${"99".repeat(20)}`);
  const requests = people.map((person) =>
    signed(person, "POST", "/custody/withdraw", {
      client_withdrawal_id: uuidv7(),
      amount: "1000000",
      to_address: to,
    }),
  );
  return billed(stack, await Promise.all(requests));
}

async function billed(stack: BenchStack, requests: readonly Uint8Array[]): Promise<Bill> {
  await stack.readMeter();
  succeeded(await drive({ port: stack.port, lanes: [requests] }));
  return { calls: requests.length, meter: await stack.readMeter() };
}

/** By the watcher's own statements, one deposit a range of blocks. The range itself is left out. */
async function deposits(stack: BenchStack): Promise<Bill> {
  const people = await makePeople(stack, CALLS, ["usdc"]);
  // Safe casts: the statements read nothing else of the settings.
  const chain = {
    chain: "local",
    confirmations: 2,
    vault: `0x${"22".repeat(20)}`,
    previous_vaults: [],
  } as unknown as Config["CHAINS"][number];
  const settings = { CHAINS: [chain], VENUES: [] } as unknown as Config;
  const meter = { ...NOTHING_BILLED };
  const db = metered(stack, meter);
  for (const { userId } of people) {
    const group = newGroup();
    const address = randomBytes(20).toString("hex");
    await stack.db
      .prepare(
        `INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
          VALUES (?, unhex(?), unhex(?, '-'), 0, randomblob(32), 0)`,
      )
      .bind(chain.chain, address, userId)
      .run();
    await commitOrThrow(db, group, [
      ...recordDeposits(group, chain, [transferTo(address)], { confirmed: true, when: TRUE }),
      ...creditConfirmed(group, settings, chain.chain, TRUE),
      ...announceDeposits(group),
    ]);
  }
  return { calls: people.length, meter };
}

function transferTo(address: string): SeenTransfer {
  const hex = (bytes: number) => randomBytes(bytes).toString("hex");
  return {
    id: uuidv7(),
    tx: hex(32),
    token: hex(20),
    ordinal: 0,
    position: 0,
    block: 88,
    hash: hex(32),
    from: hex(20),
    to: address,
    asset: "usdc",
    amount: "1000000",
    small: false,
    floor: 0,
    key: hex(32),
  };
}

/** The batches of the bench's own connection, with D1's meter. */
function metered({ db }: BenchStack, into: typeof NOTHING_BILLED) {
  const binding = {
    prepare: (text: string) => db.prepare(text),
    batch: async (statements: Parameters<typeof db.batch>[0]) => {
      const results = await db.batch(statements);
      into.d1Calls += 1;
      for (const { meta } of results) {
        into.rowsRead += meta.rows_read;
        into.rowsWritten += meta.rows_written;
      }
      return results;
    },
  };
  // Safe cast: `commit` calls nothing else.
  return binding as unknown as D1Database;
}
