/** Starts one seed in a process of its own. */
import { join } from "node:path";
import { runChild } from "../stack/run-child.ts";

export type Run = {
  readonly seed: string;
  readonly steps: number;
  /** Steps between two quiet points. */
  readonly phase?: number | undefined;
  readonly mutant?: string | undefined;
  /** Indexes of the steps to carry out; all if left out. */
  readonly keep?: readonly number[] | undefined;
  /** A file for the whole history. */
  readonly history?: string | undefined;
};

export type Report = {
  readonly seed: string;
  readonly commands: number;
  /** Matches, credited deposits and so on. */
  readonly tally: Readonly<Record<string, number>>;
  /** How many calls of each verb succeeded, and why the others did not. */
  readonly calls: readonly string[];
  readonly steps: number;
  readonly seconds: number;
  /** Time that one core worked. */
  readonly cpuSeconds: number;
  /** SHA-256 over the history. The same for the same seed, steps and source. */
  readonly history: string;
  readonly failure?: { readonly property: string; readonly message: string };
  /** Indexes of the steps up to the failure. */
  readonly done?: readonly number[];
  readonly notes?: readonly string[];
};

const PROGRAM = join(import.meta.dirname, "one-seed.ts");

export async function runSeed(run: Run): Promise<Report> {
  const args = ["--disable-warning=ExperimentalWarning", PROGRAM];
  const { stdout, stderr } = await runChild(process.execPath, args, { input: JSON.stringify(run) });
  const line = stdout.trimEnd().split("\n").at(-1) ?? "";
  // Safe cast: one-seed.ts writes a report as its last line.
  if (line.startsWith("{")) return JSON.parse(line) as Report;
  throw new Error(`the simulation of seed ${run.seed} ended without a report: ${stderr}`);
}
