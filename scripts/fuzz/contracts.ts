/**
 * `npm run fuzz -- contracts`: random sequences against the contracts, beside a model, on anvil.
 *
 *   --minutes N   how long to run; 10 when left out
 *   --seed N      run this seed once, as an earlier run printed it
 *
 * Prints every seed. Ends with 1 and the smallest failing sequence when contracts and model differ.
 */
import { randomInt } from "node:crypto";
import { positive, readArguments } from "../stack/arguments.ts";
import { startChain } from "../../test/contracts/chain.ts";
import { runSequences, type Tally } from "../../test/contracts/sequences.ts";

const USAGE = "npm run fuzz -- contracts [--minutes N] [--seed N]";
const DEFAULT_MINUTES = "10";
/** Sequences per seed. Each seed gets an anvil of its own, so that none grows without bound. */
const RUNS_PER_SEED = 200;
const MAX_STEPS = 60;
/** A failing seed goes on this long at most to find a smaller sequence. */
const SEED_TIME_LIMIT_MS = 600_000;

export async function fuzzContracts(args: readonly string[]): Promise<number> {
  const { minutes, seed } = readOptions(args);
  const end = Date.now() + minutes * 60_000;
  const tally: Tally = new Map();
  let [sequences, steps] = [0, 0];
  for (let next = seed ?? newSeed(); ; next = newSeed()) {
    const timeLimitMs = seed === undefined ? Math.max(1_000, end - Date.now()) : SEED_TIME_LIMIT_MS;
    const result = await runSeed(next, timeLimitMs);
    sequences += result.sequences;
    steps += result.steps;
    for (const [what, count] of result.tally) tally.set(what, (tally.get(what) ?? 0) + count);
    const verdict = result.failure === null ? "ok  " : "FAIL";
    console.log(`${verdict}  seed ${next}: ${result.sequences} sequences, ${result.steps} steps`);
    if (result.failure !== null) {
      console.error(`${result.failure}\n\nAgain: npm run fuzz -- contracts --seed ${next}`);
      return 1;
    }
    if (seed !== undefined || Date.now() >= end) break;
  }
  for (const [what, count] of [...tally].toSorted(([one], [other]) => one.localeCompare(other)))
    console.log(`${String(count).padStart(9)}  ${what}`);
  console.log(`${sequences} sequences, ${steps} steps: no difference from the model`);
  return 0;
}

async function runSeed(seed: number, timeLimitMs: number) {
  const chain = await startChain();
  try {
    return await runSequences(chain, {
      seed,
      numRuns: RUNS_PER_SEED,
      maxSteps: MAX_STEPS,
      timeLimitMs,
    });
  } finally {
    await chain.stop();
  }
}

function newSeed(): number {
  return randomInt(2 ** 31);
}

function readOptions(args: readonly string[]): { minutes: number; seed: number | undefined } {
  const options = {
    minutes: { type: "string", default: DEFAULT_MINUTES },
    seed: { type: "string" },
  } as const;
  const { minutes, seed } = readArguments(USAGE, options, args);
  return {
    minutes: positive(minutes, "minutes", USAGE),
    seed: seed === undefined ? undefined : positive(seed, "seed", USAGE),
  };
}
