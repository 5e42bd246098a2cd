/**
 * `npm run mutants`: applies each small wrong change of scripts/mutants/list.ts to a copy of the
 * project and runs the tests that concern it. Every mutant must make a test fail. Exits with 1 if
 * one survives.
 *
 *   --list        prints their names instead
 *   --only TEXT   mutants whose name contains TEXT; may be repeated
 *   --jobs N      copies that run at once (2)
 */
import { rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { Copy } from "./mutants/copy.ts";
import { allMutants } from "./mutants/list.ts";
import { EQUIVALENT } from "./mutants/scope.ts";

const COPIES = resolve(import.meta.dirname, "../.stack/mutants");

const { values } = parseArgs({
  options: {
    list: { type: "boolean", default: false },
    only: { type: "string", multiple: true, default: [""] },
    jobs: { type: "string", default: "2" },
  },
});
const chosen = allMutants().filter(({ name }) => values.only.some((text) => name.includes(text)));
const queue = chosen.filter(({ name }) => EQUIVALENT[name] === undefined);
const total = queue.length;
const bad: string[] = [];
let judged = 0;

for (const { name } of chosen) {
  const reason = EQUIVALENT[name];
  if (reason !== undefined) console.log(`equivalent  ${name}\n            ${reason}`);
  else if (values.list) console.log(name);
}
console.log(`${total} mutants, ${chosen.length - total} equivalent`);
if (!values.list) await judgeAll();

async function judgeAll(): Promise<void> {
  const started = Date.now();
  rmSync(COPIES, { recursive: true, force: true });
  const jobs = Math.max(1, Math.min(Number(values.jobs), total));
  console.log(`copying the project and loading Vitest, ${jobs} times`);
  await Promise.all(Array.from({ length: jobs }, (_, job) => work(join(COPIES, String(job)))));
  rmSync(COPIES, { recursive: true, force: true });
  const minutes = ((Date.now() - started) / 60_000).toFixed(1);
  console.log(`${total - bad.length} of ${total} mutants caught in ${minutes} minutes`);
  for (const line of bad) console.log(line);
  process.exitCode = bad.length === 0 ? 0 : 1;
}

async function work(folder: string): Promise<void> {
  const copy = new Copy(folder);
  for (let mutant = queue.shift(); mutant !== undefined; mutant = queue.shift()) {
    const began = Date.now();
    const { verdict, detail } = await copy.judge(mutant);
    judged += 1;
    const seconds = Math.round((Date.now() - began) / 1_000);
    console.log(`${judged}/${total}  ${verdict}  ${mutant.name}\n    ${seconds} s  ${detail}`);
    if (verdict !== "caught") bad.push(`${verdict}  ${mutant.name}`);
  }
  copy.stop();
}
