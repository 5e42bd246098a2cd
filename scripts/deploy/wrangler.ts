/** Runs wrangler as a child. */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { OFFLINE } from "../stack/bundle.ts";
import { type Ran, runChild } from "../stack/run-child.ts";

export type Run = (args: readonly string[]) => Promise<Ran>;

export type Wrangler = {
  (args: readonly string[]): Promise<Ran & { readonly output: string }>;
  /** Throws what it printed if it fails. */
  must: (args: readonly string[]) => Promise<Ran>;
};

export function wranglerOf(run: Run): Wrangler {
  const call = async (args: readonly string[]) => {
    const ran = await run(args);
    return { ...ran, output: `${ran.stdout}\n${ran.stderr}`.trim() };
  };
  const must = async (args: readonly string[]) => {
    const ran = await call(args);
    if (ran.code !== 0) throw new Error(`wrangler ${args.join(" ")}:\n${ran.output}`);
    return ran;
  };
  return Object.assign(call, { must });
}

const PROGRAM = join(
  dirname(createRequire(import.meta.url).resolve("wrangler/package.json")),
  "bin/wrangler.js",
);

export const runWrangler = (root: string): Run => runNode(root, PROGRAM);

export const runOperator = (root: string): Run => runNode(root, "scripts/operator.ts");

function runNode(root: string, program: string): Run {
  const env = { ...process.env, ...OFFLINE, CI: "true", NO_COLOR: "1" };
  return (args) => runChild(process.execPath, [program, ...args], { cwd: root, env });
}
