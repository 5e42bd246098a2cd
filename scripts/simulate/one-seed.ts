/**
 * Runs one seed in a process of its own, because the service keeps caches in its modules. Reads a
 * `Run` as JSON from its input and writes a `Report` as the last line of its output.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { replaceGlobals } from "./globals.ts";
import { loadService } from "./hooks.ts";
import { MUTANTS } from "./mutants.ts";
import { planOf } from "./plan.ts";
import type { Report, Run } from "./run.ts";
import { VirtualTime } from "./virtual-time.ts";
import { Violation } from "./violation.ts";

/** Safe cast: only simulate.ts starts this program. */
const run = JSON.parse(readFileSync(0, "utf8")) as Run;
const started = performance.now();
const history: string[] = [];
const time = new VirtualTime(
  run.seed,
  run.history === undefined ? undefined : (line) => void history.push(line),
);
loadService(MUTANTS.find(({ name }) => name === run.mutant));
let rpc = (..._request: Parameters<typeof fetch>): Promise<unknown> => Promise.reject(new Error());
let onLog = (_text: string): void => {};
replaceGlobals(time, {
  onLog: ({ level, text }) => {
    if (level !== "info") time.note(`${level} ${withoutStack(text)}`);
    onLog(text);
  },
  fetch: (...request) => rpc(...request),
});
/** The stack names files of this machine. */
function withoutStack(text: string): string {
  return text.replace(/,"stack":.*/s, "}").slice(0, 300);
}

/** The checks and cron read much; what led to a failure is elsewhere. */
function isTelling(note: string): boolean {
  return !/ d1 for (?:cron|setup|reconcile):/.test(note);
}

const { World } = await import("./world.ts");

const world = new World(time, run.seed);
onLog = (text) => world.logged(text);
rpc = (...request) => world.fetch(...request);
const plan = planOf(run.seed, run.steps, run.phase);
const kept = run.keep === undefined ? plan : run.keep.map((index) => plan[index]!);
const done: number[] = [];
let failure: Report["failure"];
const onError = (error: unknown) =>
  (failure ??= {
    property: error instanceof Violation ? error.property : "unexpected_error",
    message: error instanceof Error ? (error.stack ?? error.message) : String(error),
  });
process.on("unhandledRejection", onError);
try {
  await world.run(kept, (step) => {
    done.push(step.index);
    if (failure !== undefined) throw new Error("an earlier error was not handled");
  });
} catch (error) {
  onError(error);
}
if (run.history !== undefined) writeFileSync(run.history, `${history.join("\n")}\n`);
const report: Report = {
  seed: run.seed,
  commands: world.commands,
  tally: world.tally(),
  calls: world.calls,
  steps: done.length,
  seconds: (performance.now() - started) / 1_000,
  cpuSeconds: (({ user, system }) => (user + system) / 1e6)(process.cpuUsage()),
  history: time.historyHash(),
  ...(failure === undefined
    ? {}
    : { failure, done, notes: time.recent.filter(isTelling).slice(-60) }),
};
process.stdout.write(`${JSON.stringify(report)}\n`);
process.exit(0);
