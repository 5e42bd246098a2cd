/** Runs wrangler as a child. */
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { OFFLINE, ROOT } from "../stack/bundle.ts";
import { type Ran, runChild } from "../stack/run-child.ts";

export type Run = (args: readonly string[], input?: string) => Promise<Ran>;

export type Wrangler = {
  (args: readonly string[], input?: string): Promise<Ran & { readonly output: string }>;
  /** Throws what it printed if it fails. */
  must: Run;
};

export function wranglerOf(run: Run): Wrangler {
  const call = async (args: readonly string[], input?: string) => {
    const ran = await run(args, input);
    // wrangler colours its errors even with NO_COLOR.
    const output = stripVTControlCharacters(`${ran.stdout}\n${ran.stderr}`).trim();
    return { ...ran, output };
  };
  const must: Run = async (args, input) => {
    const ran = await call(args, input);
    const isSilent = args.includes("--json") && ran.stdout === "";
    if (ran.code !== 0 || isSilent) throw new Error(`wrangler ${args.join(" ")}:\n${ran.output}`);
    return ran;
  };
  return Object.assign(call, { must });
}

/** bin/wrangler.js says 0 if this was killed, for example for want of memory. */
export const PROGRAM = join(
  dirname(createRequire(import.meta.url).resolve("wrangler/package.json")),
  "wrangler-dist/cli.js",
);

export const runWrangler = (root: string): Run => runNode(root, PROGRAM);

export const runOperator = (root: string): Run => runNode(root, join(ROOT, "scripts/operator.ts"));

function runNode(root: string, program: string): Run {
  // wrangler-library.ts silences wrangler in this process, and a child must not inherit that.
  const env = { ...process.env, ...OFFLINE, CI: "true", NO_COLOR: "1", WRANGLER_LOG: "log" };
  return (args, input) => {
    if (input === undefined)
      return runChild(process.execPath, [program, ...args], { cwd: root, env });
    // Node's pipe is a socket, which /dev/stdin cannot open.
    const piped = ["-c", 'cat | "$@"', "sh", process.execPath, program, ...args];
    return runChild("sh", piped, { cwd: root, env, input });
  };
}
