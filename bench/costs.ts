/**
 * Prints what docs/costs.md computes from: the rows of each verb and of a quote's life, by D1's own
 * meter. Counts do not depend on the machine's load.
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
import { type Bill, dollarsOf, type Meter, NOTHING_BILLED } from "./prices.ts";
import { PATIENT } from "./quote-loads.ts";
import type { BenchStack } from "./stack.ts";
import { acceptOneOfThree, livesOf, loseQuotes, trim } from "./storage.ts";

const CALLS = 40;
const LIVES = 1_000;
const ACCEPTS = 100;

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

async function lifeOf(stack: BenchStack) {
  const market = await openMarket(stack, 2);
  await loseQuotes(stack, market, LIVES / 5);
  await trim(stack);
  const { rowsWritten, rowsRead } = await livesOf(stack, market, LIVES, async () => undefined);
  const accepts = await acceptOneOfThree(stack, market, ACCEPTS);
  return {
    rowsWritten: rowsWritten / LIVES,
    rowsRead: rowsRead / LIVES,
    rowsOfAccept: accepts.rowsWritten / ACCEPTS,
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
