/**
 * `npm run fuzz` runs schemathesis with docs/openapi.json against a stack of its own, once with a
 * session and once with an API key. It exits with 1 if a check fails or if a group had too few
 * cases.
 *
 * `npm run fuzz -- RFQ Custody` runs only these groups.
 * `npm run fuzz -- verbs --minutes 3` sends cases with ids and codes that exist, to every operation
 * and socket command (scripts/fuzz/verbs.ts).
 * `npm run fuzz -- contracts --minutes 30` compares the contracts with a model
 * (scripts/fuzz/contracts.ts).
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./stack/bundle.ts";
import { fuzzContracts } from "./fuzz/contracts.ts";
import { readTags } from "./fuzz/operations.ts";
import { differences, makeCallers } from "./fuzz/people.ts";
import { fuzzVerbs } from "./fuzz/verbs.ts";
import { freePort } from "./stack/ports.ts";
import { runChild } from "./stack/run-child.ts";
import { type Stack, startStack } from "./stack/start-stack.ts";
import { Dice } from "./stack/dice.ts";

const SCHEMATHESIS = "schemathesis==4.32.5";
/** The most generated cases of an operation, more than MIN_CASES for a group with parameters. */
const EXAMPLES_PER_OPERATION = 120;
const MIN_CASES = 2_000;
/** Groups whose calls have few parameters, so that they have few different cases, and no links. */
const SMALL_GROUPS = new Set(["Service", "Streams"]);
const GROUPS = readTags();

const HOME = join(ROOT, ".stack", "fuzz");
const VENV = join(HOME, "venv");

const [subject, ...rest] = process.argv.slice(2);
process.exitCode =
  subject === "contracts"
    ? await fuzzContracts(rest)
    : subject === "verbs"
      ? await fuzzVerbs(rest)
      : await main(process.argv.slice(2));

async function main(named: string[]): Promise<number> {
  if (spawnSync("python3", ["--version"]).status !== 0) {
    console.log("skipped: python3 is not installed");
    return 0;
  }
  const tool = installTool();
  const dir = join(HOME, "stack");
  const stack = await startStack({
    port: await freePort(),
    rpcPort: await freePort(),
    dir,
    vars: { RATE_LIMITS: "off", AUTH_FRESH_SESSION_SECS: "604800" },
  });
  try {
    const faults: string[] = [];
    for (const group of named.length === 0 ? GROUPS : named) {
      let casesOfGroup = 0;
      for (const credential of ["session", "api_key"] as const) {
        const { status, cases } = await fuzz(tool, stack, { group, credential });
        console.log(
          `${status === 0 ? "ok" : "FAULT"}  ${group} with ${credential}: ${cases} cases`,
        );
        if (status !== 0) faults.push(`${group} with ${credential}`);
        casesOfGroup += cases;
      }
      if (casesOfGroup < MIN_CASES && !SMALL_GROUPS.has(group))
        faults.push(`${group}: fewer than ${MIN_CASES} cases`);
    }
    faults.push(...(await differences(stack)));
    if (faults.length > 0)
      console.error(
        `\nFaults: ${faults.join("; ")}. Logs: ${HOME}; the service's: ${stack.workerLog}`,
      );
    return faults.length === 0 ? 0 : 1;
  } finally {
    await stack.stop();
    rmSync(join(dir, "state"), { recursive: true, force: true });
  }
}

function installTool(): string {
  const bin = join(VENV, "bin");
  if (!existsSync(join(bin, "schemathesis"))) {
    mkdirSync(HOME, { recursive: true });
    must("python3", ["-m", "venv", VENV]);
    must(join(bin, "pip"), ["install", "--quiet", SCHEMATHESIS]);
  }
  return join(bin, "schemathesis");
}

async function fuzz(
  tool: string,
  stack: Stack,
  run: { group: string; credential: "session" | "api_key" },
): Promise<{ status: number; cases: number }> {
  const config = join(ROOT, "scripts", "fuzz", "schemathesis.toml");
  const args = [
    "--config-file",
    config,
    "run",
    join(ROOT, "docs", "openapi.json"),
    "--url",
    stack.directUrl,
    "--include-tag",
    run.group,
    "--max-examples",
    String(EXAMPLES_PER_OPERATION),
    "--no-color",
    ...(SMALL_GROUPS.has(run.group) ? ["--phases", "examples,coverage,fuzzing"] : []),
  ];
  const { code, stdout, stderr } = await runChild(tool, args, {
    cwd: HOME,
    env: {
      ...process.env,
      PYTHONPATH: join(ROOT, "scripts", "fuzz"),
      PYTHONDONTWRITEBYTECODE: "1",
      FUZZ_BASE_URL: stack.directUrl,
      FUZZ_CREDENTIAL: run.credential,
      ...(await someone(stack)),
    },
  });
  const [status, output] = [code ?? 1, stdout + stderr];
  writeFileSync(join(HOME, `${run.group}-${run.credential}.log`), output);
  if (status !== 0) console.log(output);
  return { status, cases: Number(/(\d+) generated/.exec(output)?.[1] ?? 0) };
}

/** Each run has its own funded user, because generated calls end sessions and revoke keys. */
async function someone(stack: Stack): Promise<Record<string, string>> {
  const [caller] = await makeCallers(stack, new Dice("schemathesis"), 1);
  const [key] = caller?.keys ?? [];
  if (caller === undefined || key === undefined) throw new Error("no caller");
  return { FUZZ_TOKEN: caller.token, FUZZ_API_KEY_ID: key.apiKeyId, FUZZ_SECRET: key.secret };
}

function must(program: string, args: readonly string[]): void {
  const { status } = spawnSync(program, args, { stdio: "inherit" });
  if (status !== 0) throw new Error(`${program} ${args.join(" ")} ended with ${status}`);
}
