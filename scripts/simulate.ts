/**
 * `npm run simulate`: the service's own code against SQLite, with virtual time, a seeded scheduler,
 * and calls that are lost, late and doubled. See docs/testing.md.
 */
import { randomBytes } from "node:crypto";
import { MUTANTS } from "./simulate/mutants.ts";
import { planOf } from "./simulate/plan.ts";
import { type Report, type Run, runSeed } from "./simulate/run.ts";
import { shrink } from "./simulate/shrink.ts";
import { positive, readArguments, refuse } from "./stack/arguments.ts";

const USAGE = `npm run simulate -- [options]
  --seed S         one seed; without it, fresh seeds
  --steps N        steps of each seed (default 10000)
  --seeds N        number of fresh seeds (default 1)
  --seconds T      fresh seeds until T seconds are over, instead of --seeds
  --mutant NAME    undo one guard in memory; the run succeeds if the simulator notices
  --mutants        the same for each mutant
  --history FILE   write the history of one seed
  --calls          print how many calls of each verb succeeded
  --no-shrink      print the failing steps as they are`;

const values = readArguments(USAGE, {
  seed: { type: "string" },
  steps: { type: "string", default: "10000" },
  seeds: { type: "string", default: "1" },
  seconds: { type: "string" },
  mutant: { type: "string" },
  mutants: { type: "boolean", default: false },
  history: { type: "string" },
  calls: { type: "boolean", default: false },
  "no-shrink": { type: "boolean", default: false },
});
const steps = positive(values.steps, "steps", USAGE);

/** Steps that a report prints. */
const PRINTED = 50;
/** Seeds of which one at least must find a mutant. */
const SEEDS_PER_MUTANT = 8;

if (values.mutants || values.mutant !== undefined) await runMutants(values.mutant);
else if (values.seed === undefined) await runFresh();
else await runOne({ seed: values.seed, steps, history: values.history });

async function runFresh(): Promise<void> {
  const started = performance.now();
  const until =
    values.seconds === undefined ? undefined : positive(values.seconds, "seconds", USAGE);
  const seeds =
    until === undefined ? positive(values.seeds, "seeds", USAGE) : Number.POSITIVE_INFINITY;
  let [count, commands, cpuSeconds] = [0, 0, 0];
  const elapsed = () => (performance.now() - started) / 1_000;
  let slowest = 0;
  // The last seed ends before the time does.
  const isOver = () => count >= seeds || (until !== undefined && elapsed() + slowest > until);
  while (!isOver()) {
    const report = await runOne({ seed: randomBytes(4).toString("hex"), steps });
    slowest = Math.max(slowest, report.seconds + 1);
    commands += report.commands;
    cpuSeconds += report.cpuSeconds;
    count++;
  }
  const rate = Math.round((60 * commands) / cpuSeconds);
  console.log(`no violation in ${count} seeds, ${commands} commands, ${rate} a minute of one core`);
}

/** Ends the program with 1 if a property is violated. */
async function runOne(run: Run): Promise<Report> {
  const report = await runSeed(run);
  console.log(summaryOf(report));
  if (values.calls) console.log(`  ${report.calls.join("\n  ")}`);
  if (report.failure === undefined) return report;
  await explain(run, report);
  process.exit(1);
}

async function runMutants(only: string | undefined): Promise<void> {
  const mutants = MUTANTS.filter(({ name }) => only === undefined || name === only);
  if (mutants.length === 0)
    refuse(`unknown mutant; there are ${MUTANTS.map(({ name }) => name).join(", ")}`, USAGE);
  const survivors: string[] = [];
  for (const { name, breaks } of mutants) {
    let found: Report | undefined;
    for (let seed = 1; seed <= SEEDS_PER_MUTANT && found === undefined; seed++) {
      const report = await runSeed({ seed: values.seed ?? String(seed), steps, mutant: name });
      if (report.failure !== undefined) found = report;
    }
    if (found === undefined) survivors.push(name);
    console.log(
      found === undefined
        ? `${name}: NOT FOUND (${breaks})`
        : `${name}: ${found.failure?.property} with seed ${found.seed} after ${found.steps} steps`,
    );
  }
  if (survivors.length > 0) process.exit(1);
}

async function explain(run: Run, report: Report): Promise<void> {
  console.log(`\n${report.failure?.message}`);
  const done = report.done ?? [];
  const shortest = values["no-shrink"] ? done : await shrink(run, report, console.log);
  const plan = planOf(run.seed, run.steps, run.phase);
  console.log(`\nThe last ${PRINTED} of ${shortest.length} steps:`);
  for (const index of shortest.slice(-PRINTED)) {
    const step = plan[index];
    if (step !== undefined)
      console.log(`  ${index} +${step.waitMs} ms ${step.kind} (${step.weather})`);
  }
  const last = shortest === done ? report : await runSeed({ ...run, keep: shortest });
  console.log(`\nWhat happened last:\n  ${(last.notes ?? []).join("\n  ")}`);
  console.log(`\nTo repeat: npm run simulate -- --seed ${run.seed} --steps ${run.steps}`);
}

function summaryOf({ seed, steps: count, commands, tally, seconds, history }: Report): string {
  const reached = Object.entries(tally).map(([name, number]) => `${number} ${name}`);

  return `seed ${seed}: ${count} steps, ${commands} commands, ${reached.join(", ")}, ${seconds.toFixed(
    1,
  )} s, history ${history.slice(0, 16)}`;
}
