/**
 * `npm run mutants`: applies each wrong change of scripts/mutants/list.ts to a copy of the project
 * and runs the tests that concern it. Every mutant must make a test fail. Exits with 1 if one
 * survives.
 *
 *   --only TEXT   mutants whose name contains TEXT; may be repeated
 *   --jobs N      copies that run at once (2)
 */
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { MUTANTS } from "./mutants/list.ts";
import { fileOf, type Mutant } from "./mutants/mutant.ts";

const ROOT = resolve(import.meta.dirname, "..");
const COPIES = join(ROOT, ".stack/mutants");
/** What the copies need. node_modules is a link. */
const PARTS = [
  "bench",
  "contracts",
  "docs",
  "examples",
  "migrations",
  "packages",
  "scripts",
  "src",
  "test",
  "package.json",
  "tsconfig.json",
  "vitest.config.ts",
  "worker-configuration.d.ts",
  "wrangler.toml",
];
/** A mutant that makes the tests hang counts as caught. */
const DEADLINE_MS = 240_000;

type Verdict = "caught" | "caught: hangs" | "SURVIVED" | "INVALID";

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [""] },
    jobs: { type: "string", default: "2" },
  },
});
const chosen = MUTANTS.filter(({ name }) => values.only.some((text) => name.includes(text)));
const equivalent = chosen.filter((mutant) => mutant.equivalent !== undefined);
const queue = chosen.filter((mutant) => mutant.equivalent === undefined);
const total = queue.length;
const verdicts = new Map<string, Verdict>();
const started = Date.now();

rmSync(COPIES, { recursive: true, force: true });
const jobs = Math.max(1, Math.min(Number(values.jobs), total));
await Promise.all(Array.from({ length: jobs }, (_, job) => work(join(COPIES, String(job)))));
rmSync(COPIES, { recursive: true, force: true });

for (const { name, equivalent: reason } of equivalent)
  console.log(`equivalent  ${name}: ${reason}`);
const bad = [...verdicts].filter(([, verdict]) => !verdict.startsWith("caught"));
const minutes = ((Date.now() - started) / 60_000).toFixed(1);
console.log(
  `${total - bad.length} of ${total} mutants caught, ${equivalent.length} equivalent, in ${minutes} minutes`,
);
for (const [name, verdict] of bad) console.log(`${verdict}  ${name}`);
process.exitCode = bad.length === 0 ? 0 : 1;

async function work(copy: string): Promise<void> {
  mkdirSync(copy, { recursive: true });
  for (const part of PARTS) cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
    const verdict = await judge(copy, mutant);
    verdicts.set(mutant.name, verdict);
    console.log(`${verdicts.size}/${total}  ${verdict}  ${mutant.name}`);
  }
}

async function judge(copy: string, mutant: Mutant): Promise<Verdict> {
  const { find, replace, tests } = mutant;
  const path = join(copy, fileOf(mutant));
  const text = readFileSync(path, "utf8");
  if (text.split(find).length !== 2) return "INVALID";
  writeFileSync(
    path,
    text.replace(find, () => replace),
  );
  try {
    for (const test of tests) {
      const { failed, hung, output } = await run(copy, test.project, test.file);
      if (hung) return "caught: hangs";
      if (!failed) continue;
      // A mutant that does not even load would be "caught" by any test.
      if (/Transform failed|SyntaxError|No test files found/.test(output)) return "INVALID";
      return "caught";
    }
    return "SURVIVED";
  } finally {
    writeFileSync(path, text);
  }
}

function run(
  copy: string,
  project: string,
  file: string,
): Promise<{ failed: boolean; hung: boolean; output: string }> {
  return new Promise((done) => {
    const child = spawn(
      process.execPath,
      [
        join(ROOT, "node_modules/vitest/vitest.mjs"),
        "run",
        "--project",
        project,
        "--bail",
        "1",
        file,
      ],
      { cwd: copy, stdio: ["ignore", "pipe", "pipe"], detached: true },
    );
    let output = "";
    let hung = false;
    for (const stream of [child.stdout, child.stderr])
      stream
        .setEncoding("utf8")
        .on("data", (text: string) => (output = (output + text).slice(-50_000)));
    const deadline = setTimeout(() => {
      hung = true;
      // The group, because workerd is a child of the child.
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    }, DEADLINE_MS);
    child.on("exit", (code) => {
      clearTimeout(deadline);
      done({ failed: code !== 0, hung, output });
    });
  });
}
