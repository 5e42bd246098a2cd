/** `npm run soak`: the service under load and failures (docs/testing.md). */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ASSETS, TOKENS, USDC, nameOf } from "./soak/assets.ts";
import { archiveDiffers, CRON_EVERY_MS, SECONDS_WINDOWS, travel } from "./soak/archive.ts";
import { openChain } from "./soak/chain.ts";
import { Dice } from "./actors/dice.ts";
import { breakThings, type Faults, serviceStatus } from "./soak/faults.ts";
import { act, introduce } from "./soak/people.ts";
import { comeToRest } from "./soak/rest.ts";
import { Gate, type RpcProxy, startRpcProxy } from "./soak/rpc-proxy.ts";
import { Tally } from "./soak/tally.ts";
import { judge } from "./soak/verdict.ts";
import { VerbUse } from "./soak/verb-use.ts";
import { soakVerbs } from "./soak/verbs/verbs.ts";
import { localSettings, makeSecrets } from "./stack/local-settings.ts";
import { positive, readArguments } from "./stack/arguments.ts";
import { freePort } from "./stack/ports.ts";
import { runScript } from "./stack/shutdown.ts";
import { type Stack, startStack } from "./stack/start-stack.ts";

const USAGE = `npm run soak -- [verbs] [--minutes N] [--seed S] [--people P] [--hands H] [--dir <path>]

Users deposit, trade and withdraw through the public interface while processes are killed, blocks
are reorganised, RPC nodes return wrong data and operators interfere. The seed determines
operations and faults. Data leaves the database within seconds. When all work has ended, it runs the
reconciliation and compares its own sums, puts the database back to before seals, restores and
compares again. It exits with 1 if anything differs.

verbs: sends valid, nearly valid and broken cases to every operation and socket command instead.`;

/** Reorgs are at most one block less deep. */
const CONFIRMATIONS = 4;
const REPLACE_AFTER_SECS = 5;
/** Of each asset, for each user. Without funds the first minute would be rejections. */
const FIRST_DEPOSIT = 2_000_000_000n;
const MINUTES_FOR_ALL_VERBS = 4;
/** The first users need a one-time code for large withdrawals. */
const WITH_APPROVALS = 3;
const PROGRESS_EVERY_MS = 5_000;
/** How often senders resend what a reorg, an emptied mempool or a bad node has lost. */
const SEND_AGAIN_EVERY_MS = 2_000;

const [subject, ...options] = process.argv.slice(2);
if (subject === "verbs") process.exitCode = await soakVerbs(options);
else await runScript(soak);

async function soak(onStop: (stop: () => Promise<void>) => void): Promise<number> {
  const values = readArguments(USAGE, {
    minutes: { type: "string", default: "10" },
    seed: { type: "string", default: randomBytes(4).toString("hex") },
    people: { type: "string", default: "8" },
    hands: { type: "string", default: "4" },
    dir: { type: "string", default: join(".stack", "soak") },
  });
  const { seed, dir } = values;
  const minutes = positive(values.minutes, "minutes", USAGE);
  console.log(`soak: ${minutes} minutes with --seed ${seed}; logs in ${dir}`);
  const stack = await startStack({ port: await freePort(), rpcPort: await freePort(), dir });
  onStop(() => stack.stop());
  const gate = new Gate();
  const proxies = [
    await startRpcProxy(stack.rpcUrl, { dice: new Dice(`${seed}/rpc-0`), gate }),
    await startRpcProxy(stack.rpcUrl, { dice: new Dice(`${seed}/rpc-1`), gate }),
  ];
  onStop(async () => void (await Promise.all(proxies.map((proxy) => proxy.stop()))));
  await stack.restartWorker(harder(stack, proxies));
  const until = { at: Number.POSITIVE_INFINITY };
  const world = await people(stack, proxies, {
    gate,
    seed,
    count: positive(values.people, "people", USAGE),
    ended: () => Date.now() > until.at,
    end: () => (until.at = 0),
  });
  until.at = Date.now() + minutes * 60_000;
  await play(world, seed, positive(values.hands, "hands", USAGE));
  console.log("soak: no more faults; coming to rest");
  const findings = await restAndJudge(world);
  tell(world, minutes, seed);
  console.log("soak: putting the database back to before seals");
  findings.push(...(await travelAndJudge(world, new Dice(`${seed}/travel`))));
  // A short run cannot reach all of them.
  if (minutes >= MINUTES_FOR_ALL_VERBS)
    findings.push(...world.verbs.unused().map((name) => `${name} was never used with success`));
  for (const finding of findings) console.log(`  differs: ${finding}`);
  console.log(
    findings.length === 0
      ? "soak: no difference"
      : `soak: ${findings.length} differences, see ${stack.workerLog}`,
  );
  return findings.length === 0 ? 0 : 1;
}

/** If the work does not end, that is a finding too, and the other checks still run. */
async function restAndJudge(world: Faults): Promise<string[]> {
  try {
    await comeToRest(world);
  } catch (error) {
    world.tally.odd.push(String(error));
  }
  return [...(await judge(world)), ...(await archiveDiffers(world))];
}

async function travelAndJudge(world: Faults, dice: Dice): Promise<string[]> {
  const reported = world.tally.odd.length;
  try {
    const findings = await travel(world, dice);
    world.tally.odd.splice(0, reported);
    const judged = await judge(world, { restored: true });
    return [...findings, ...judged, ...(await archiveDiffers(world))].map(
      (finding) => `after the restore: ${finding}`,
    );
  } catch (error) {
    return [`the restore: ${String(error)}`];
  }
}

/** Two RPC endpoints that may fail, more confirmations, one venue with fees, no rate limits. */
function harder(stack: Stack, proxies: readonly RpcProxy[]): Record<string, string> {
  const local = localSettings({
    secrets: makeSecrets(),
    deployment: stack.deployment,
    rpcUrl: stack.rpcUrl,
  });
  const [chain] = JSON.parse(local["CHAINS"] ?? "[]") as object[];
  const venues = JSON.parse(local["VENUES"] ?? "[]") as { venue_id: string }[];
  const changed = {
    rpc_urls: proxies.map(({ url }) => url),
    confirmations: CONFIRMATIONS,
    replace_after_secs: REPLACE_AFTER_SECS,
  };
  return {
    CHAINS: JSON.stringify([{ ...chain, ...changed }]),
    VENUES: JSON.stringify(
      venues.map((venue) =>
        venue.venue_id === "venue_two" ? { ...venue, taker_fee_bps: 30, maker_fee_bps: 10 } : venue,
      ),
    ),
    WITHDRAWAL_DAILY_COUNT: "100000",
    RFQ_DAILY_REQUESTS: "10000000",
    STREAM_DAILY_TICKETS: "1000000",
    AUTH_DAILY_API_KEYS: "10000",
    DEPOSIT_DAILY_ADDRESSES: "1000",
    AUTH_SESSION_TTL_SECS: "604800",
    AUTH_FRESH_SESSION_SECS: "604800",
    ...SECONDS_WINDOWS,
  };
}

async function people(
  stack: Stack,
  proxies: readonly RpcProxy[],
  {
    seed,
    count,
    ...rest
  }: { gate: Gate; seed: string; count: number; ended: () => boolean; end: () => void },
): Promise<Faults> {
  const liar = new Dice(`${seed}/liar`).pick(proxies);
  const chain = await openChain(stack.rpcUrl, stack.deployment, new Dice(`${seed}/chain`));
  const everyone = [];
  const verbs = new VerbUse();
  for (let index = 0; index < count; index++) {
    const approves = index < WITH_APPROVALS;
    everyone.push(await introduce({ stack, verbs }, `person-${index}`, { approves }));
  }
  const refuser = await chain.deployRefuser();
  for (const { addresses } of everyone) {
    for (const asset of ASSETS)
      for (const address of addresses) await chain.mint(asset, address, FIRST_DEPOSIT);
  }
  return {
    stack,
    chain,
    people: everyone,
    refuser,
    tally: new Tally(),
    verbs,
    ...rest,
    proxies,
    liar,
    confirmations: CONFIRMATIONS,
  };
}

async function play(world: Faults, seed: string, hands: number): Promise<void> {
  const startedAt = Date.now();
  const done = { yes: false };
  const repeat = async (everyMs: number, what: () => unknown) => {
    for (let due = Date.now() + everyMs; !done.yes; await sleep(200)) {
      if (Date.now() < due) continue;
      due = Date.now() + everyMs;
      await what();
    }
  };
  const background = Promise.all([
    repeat(SEND_AGAIN_EVERY_MS, () => world.chain.sendAgain().catch(() => {})),
    repeat(CRON_EVERY_MS, () => world.stack.runCron().catch(() => {})),
    repeat(PROGRESS_EVERY_MS, () => progress(world, startedAt).catch(() => {})),
  ]);
  const acting = Array.from({ length: hands }, (_, hand) =>
    act(world, new Dice(`${seed}/hand-${hand}`)),
  );
  await Promise.all([...acting, breakThings(world, new Dice(`${seed}/faults`))]);
  done.yes = true;
  await background;
}

async function progress(world: Faults, startedAt: number): Promise<void> {
  const { tally } = world;
  const secs = Math.round((Date.now() - startedAt) / 1_000);
  const clock = `${Math.floor(secs / 60)}:${String(secs % 60).padStart(2, "0")}`;
  const block = await world.chain.client.getBlockNumber().catch(() => "?");
  console.log(
    `${clock} operations ${tally.total("operation")}, rejected ${tally.total("refused")}, no response ${tally.total("lost")}, faults ${tally.total("fault")}` +
      ` (${tally.list("fault")}), block ${block}${tally.odd.length === 0 ? "" : `, UNEXPLAINED ${tally.odd.length}: ${tally.odd.at(-1)}`}`,
  );
  const status = await serviceStatus(world).catch(() => null);
  for (const { halted, payer_halted } of status?.chains ?? []) {
    if (halted === null && payer_halted === null) continue;
    // Stop now, because nothing can proceed and the present state shows why.
    tally.odd.push(`halted after ${clock}: ${JSON.stringify({ halted, payer_halted })}`);
    world.end();
  }
}

function tell({ tally, proxies, verbs }: Faults, minutes: number, seed: string): void {
  const units = (amount: bigint) =>
    (Number(amount) / 1e6).toLocaleString("en", { maximumFractionDigits: 0 });
  const tokens = (how: "deposited" | "withdrawn") =>
    units(TOKENS.reduce((sum, asset) => sum + tally.money(how, nameOf(asset)), 0n));
  console.log(`
soak: ${minutes} minutes, seed ${seed}
  operations  ${tally.total("operation")}: ${tally.list("operation")}
  rejected    ${tally.total("refused")}: ${tally.list("refused")}
  no response ${tally.total("lost")}: ${tally.list("lost")}
  faults      ${tally.total("fault")}: ${tally.list("fault")}
  not used    ${verbs.unused().join(", ") || "none"}
  RPC calls   ${proxies.reduce((sum, proxy) => sum + proxy.calls(), 0)}
  USDC        deposited ${units(tally.money("deposited", USDC))}, traded ${units(tally.money("traded", USDC))}, withdrawn ${units(tally.money("withdrawn", USDC))}
  tokens      deposited ${tokens("deposited")}, withdrawn ${tokens("withdrawn")}`);
}
