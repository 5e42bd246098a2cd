/**
 * The archive in a soak: everything is sealed within seconds, ledgers are compared over both sides,
 * and at the end the database is put back to before seals.
 */
import { cpSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { LedgerEntry } from "../../packages/client/src/index.ts";
import type { Dice } from "../actors/dice.ts";
import { type Faults, order, serviceStatus } from "./faults.ts";
import { comeToRest } from "./rest.ts";
import { trade } from "./trades.ts";
import type { JournalReport } from "../operator/verify-archive.ts";
import { note, type Person, type World } from "./world.ts";

/** Ended records and transfers leave the database after 15 s. */
export const SECONDS_WINDOWS = { HOT_WINDOWS_DIVISOR: "240" };
/** The sealer follows the reconciliation, which cron runs. */
export const CRON_EVERY_MS = 5_000;
const LOST_TRADES = 20;
/** Until what was traded is sealed and deleted. */
const SEALED_AFTER_MS = 40_000;
const PATIENCE_MS = 120_000;

/** Every entry of every user, over both sides of the mark, and the operator's own check. */
export async function archiveDiffers(world: World): Promise<string[]> {
  const findings: string[] = [];
  for (const person of world.people) findings.push(...(await ledgerDiffers(person)));
  // Safe cast: the result of the command.
  const report = (await order(world, "journal verify")) as JournalReport;
  if (!report.ok) findings.push(`journal verify: ${JSON.stringify(report.discrepancies)}`);
  if (report.verified === 0) findings.push("nothing was sealed");
  return findings;
}

/** Each entry continues the balance of the one before, and the newest leaves today's balance. */
async function ledgerDiffers({ client, email }: Person): Promise<string[]> {
  const entries = await client.custody.ledger({ limit: 500 }).all();
  const findings: string[] = [];
  const left = new Map<string, bigint>();
  let last = 0;
  for (const entry of entries.toReversed()) {
    const key = `${entry.account} ${assetOf(entry)}`;
    const expected = (left.get(key) ?? 0n) + entry.delta;
    if (entry.entry_id <= last || entry.balance_after !== expected)
      findings.push(
        `${email}: entry ${entry.entry_id} leaves ${entry.balance_after} of ${key}, not ${expected}`,
      );
    left.set(key, entry.balance_after);
    last = entry.entry_id;
  }
  for (const [key, balance] of await balancesOf({ client })) {
    if ((left.get(key) ?? 0n) !== balance)
      findings.push(
        `${email}: holds ${balance} of ${key}, the entries leave ${left.get(key) ?? 0n}`,
      );
  }
  return [...findings, ...(await matchesDiffer({ client, email }, entries))];
}

function assetOf({ venue, asset_id }: Pick<LedgerEntry, "venue" | "asset_id">): string {
  return asset_id === null ? "usdc" : `${venue ?? ""}:${asset_id}`;
}

async function balancesOf({ client }: Pick<Person, "client">): Promise<[string, bigint][]> {
  const balances = await client.custody.balances().all();
  const usdc = await client.custody.usdcBalance();
  return [
    ["available usdc", usdc.balance],
    ["pending usdc", usdc.pending_balance],
    ...balances
      .filter(({ asset_id }) => asset_id !== null)
      .flatMap(
        ({ venue_id: venue, asset_id, balance, pending_balance: pending }): [string, bigint][] => {
          const asset = assetOf({ venue, asset_id });
          return [
            [`available ${asset}`, balance],
            [`pending ${asset}`, pending],
          ];
        },
      ),
  ];
}

/** A user's matches, sealed ones too, are those that the user's entries name. */
async function matchesDiffer(
  { client, email }: Pick<Person, "client" | "email">,
  entries: readonly LedgerEntry[],
): Promise<string[]> {
  const matches = await client.rfq.matches({ limit: 500 }).all();
  const listed = new Set(matches.map(({ match_id }) => match_id));
  const traded = new Set(
    entries.filter(({ reason }) => reason === "trade").map(({ ref_id }) => ref_id),
  );
  const findings = [...traded].filter((id) => !listed.has(id)).map((id) => `lacks match ${id}`);
  findings.push(
    ...[...listed].filter((id) => !traded.has(id)).map((id) => `has no entry of match ${id}`),
  );
  if (listed.size !== matches.length) findings.push("lists a match twice");
  return findings.map((finding) => `${email}: ${finding}`);
}

/**
 * Puts the database back to before trades that were sealed, and restores. Only trades are lost, so
 * the chain and the records of users still agree.
 */
export async function travel(world: Faults, dice: Dice): Promise<string[]> {
  const { stack } = world;
  const backup = join(stack.dir, "backup");
  await stack.restartWorker({}, () => cpSync(databaseDir(stack.dir), backup, { recursive: true }));
  await tradeMore(world, dice);
  await passTime(world);
  await stack.restartWorker({}, () => {
    const database = databaseDir(stack.dir);
    rmSync(database, { recursive: true });
    cpSync(backup, database, { recursive: true });
  });
  const halted = await untilHalted(world);
  if (!halted) return ["the sealer did not halt on a database that was put back"];
  await order(world, "restore");
  await tradeMore(world, dice);
  await passTime(world);
  await comeToRest(world);
  return [];
}

async function tradeMore(world: Faults, dice: Dice): Promise<void> {
  for (let count = 0; count < LOST_TRADES; count++)
    await trade(world, dice).catch((error: unknown) => note(world.tally, "trade", error));
}

/** Lets cron and the sealer work. */
async function passTime({ stack }: Faults): Promise<void> {
  for (const until = Date.now() + SEALED_AFTER_MS; Date.now() < until; await sleep(CRON_EVERY_MS))
    await stack.runCron();
}

async function untilHalted(world: Faults): Promise<boolean> {
  for (const until = Date.now() + PATIENCE_MS; Date.now() < until; await sleep(1_000)) {
    await world.stack.runCron();
    const { alerts } = await serviceStatus(world);
    if (alerts.some(({ kind }) => kind === "journal_restored")) return true;
  }
  return false;
}

/** The files of D1 alone: Durable Objects keep theirs, as when Time Travel restores a database. */
export function databaseDir(dir: string): string {
  const d1 = join(dir, "state", "v3", "d1");
  const name = readdirSync(d1).find((entry) => /^miniflare-D1DatabaseObject$/.test(entry));
  if (name === undefined) throw new Error(`no database in ${d1}`);
  return join(d1, name);
}
