/**
 * `npm run bench [-- name…] [--quick]`: every bench, or those named, one after the other on an
 * otherwise idle machine.
 */
import { availableParallelism, cpus, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { runScript } from "../scripts/stack/shutdown.ts";
import { benchAbuse } from "./abuse.ts";
import { benchArchive } from "./archive.ts";
import { type Bench, type BenchOptions, type Figure, printFigures, verdict } from "./figures.ts";
import { benchConsole } from "./console.ts";
import { benchCosts } from "./costs.ts";
import { benchLiabilities } from "./liabilities.ts";
import { benchNetwork } from "./network.ts";
import { benchQuotes } from "./quotes.ts";
import { benchRfq } from "./rfq.ts";
import { type StackOptions, startBenchStack } from "./stack.ts";
import { benchStorage } from "./storage.ts";

const OWN: Readonly<Record<string, { title: string; bench: Bench }>> = {
  rfq: { title: "Quotes and accepts", bench: benchRfq },
  quotes: { title: "What a quote costs beside its peers", bench: benchQuotes },
  network: { title: "Verbs over Cloudflare's distances", bench: benchNetwork },
  storage: { title: "Storage", bench: benchStorage },
  archive: { title: "Ledger pages from the archive", bench: benchArchive },
  console: { title: "Quotes on a slow page", bench: benchConsole },
  costs: { title: "Costs", bench: benchCosts },
  liabilities: { title: "Proof of liabilities", bench: benchLiabilities },
  abuse: { title: "Bystanders during an attack", bench: benchAbuse },
};

await runScript(async (onStop) => {
  const known = Object.keys(OWN);
  const usage = [
    `Benches: ${known.join(", ")}`,
    "--quick for short runs",
    "--d1 and --object: milliseconds for network",
    "--only: attacks whose name contains this",
    "--entries: of the archive's reader.",
  ].join("; ");
  let named: readonly string[];
  let options: { quick: boolean; d1: string; object: string; only?: string; entries?: string };
  try {
    ({ positionals: named, values: options } = parseArgs({
      allowPositionals: true,
      options: {
        quick: { type: "boolean", default: false },
        d1: { type: "string", default: "10" },
        object: { type: "string", default: "5" },
        only: { type: "string" },
        entries: { type: "string" },
      },
    }));
    const strange = named.filter((name) => !known.includes(name));
    if (strange.length > 0) throw new Error(`There is no ${strange.join(", ")}.`);
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)} ${usage}`);
    return 2;
  }
  const { quick, only } = options;
  const entries = options.entries === undefined ? undefined : Number(options.entries);
  if (entries !== undefined && !(entries > 0)) {
    console.error(`--entries is a number. ${usage}`);
    return 2;
  }
  const network = { d1Ms: Number(options.d1), objectMs: Number(options.object) };
  if (!(network.d1Ms >= 0 && network.objectMs >= 0)) {
    console.error(`--d1 and --object are milliseconds. ${usage}`);
    return 2;
  }
  const say = (line: string) => console.log(line);
  say(
    `${new Date().toISOString()}  ${cpus()[0]?.model ?? "?"}, ${availableParallelism()} cores, load ${loadavg()
      .map((load) => load.toFixed(1))
      .join(" ")}${quick ? "  QUICK: figures mean nothing" : ""}`,
  );
  const all: Figure[] = [];
  for (const name of named.length > 0 ? known.filter((one) => named.includes(one)) : known) {
    const own = OWN[name];
    const started = performance.now();
    say(`\n— ${name}`);
    if (own === undefined) continue;
    const figures = await runBench(own.bench, { quick, say, onStop, network, only, entries });
    printFigures(own.title, figures);
    all.push(...figures);
    say(`  (${((performance.now() - started) / 1_000).toFixed(0)} s)`);
  }
  const aimed = all.filter((figure) => figure.target !== undefined);
  if (aimed.length > 0)
    printFigures(
      `Targets: ${aimed.filter((figure) => verdict(figure) === "holds").length} of ` +
        `${aimed.length} hold`,
      aimed,
    );
  return 0;
});

/** Stops what the bench has started when it ends, and also when the run is interrupted. */
async function runBench(bench: Bench, options: Omit<BenchOptions, "start">): Promise<Figure[]> {
  const stops: (() => Promise<void>)[] = [];
  const stopAll = async () => {
    // All of them, also after one that fails.
    await Promise.allSettled(stops.splice(0).map((stop) => stop()));
  };
  options.onStop(stopAll);
  const onStop = (stop: () => Promise<void>) => void stops.push(stop);
  const start = async (settings?: StackOptions) => {
    const stack = await startBenchStack(settings);
    onStop(stack.stop);
    return stack;
  };
  try {
    return await bench({ ...options, start, onStop });
  } finally {
    await stopAll();
  }
}
