/** The Python client in a virtual environment, which the test files of a checkout share. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import type { TestContext } from "vitest";
import { install } from "./install.ts";

export const PACKAGE = resolve("packages/client-python");
const SHARED = resolve(".stack", "python-client-receipts");
const DEPENDENCIES = [
  "httpx2>=2.16,<3",
  "websockets>=15",
  "standardwebhooks>=1.1",
  "pyjwt[crypto]>=2.10",
];

/** Skips the test where Python 3.11, its module venv or the packages are missing. */
export async function pythonWithClient(
  skip: TestContext["skip"],
): Promise<{ python: string; env: NodeJS.ProcessEnv }> {
  skipWithoutPython(skip);
  if (!existsSync(SHARED)) {
    const draft = `${SHARED}-${process.pid}`;
    mkdirSync(draft, { recursive: true });
    await install(skip, "python3", ["-m", "venv", "venv"], { cwd: draft });
    const packages = ["-m", "pip", "install", "--quiet", ...DEPENDENCIES];
    await install(skip, join(draft, "venv/bin/python"), packages, { cwd: draft });
    try {
      renameSync(draft, SHARED);
    } catch {
      // Another test file was faster.
      rmSync(draft, { recursive: true, force: true });
    }
  }
  const path = [join(PACKAGE, "src"), process.env["PYTHONPATH"]].filter(Boolean).join(delimiter);
  return {
    python: join(SHARED, "venv/bin/python"),
    env: { ...process.env, PYTHONPATH: path, PYTHONDONTWRITEBYTECODE: "1" },
  };
}

export function skipWithoutPython(skip: TestContext["skip"]): void {
  const version = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))";
  const found = spawnSync("python3", ["-c", version]).status === 0;
  skip(!found, "Python 3.11 with venv is not installed");
}

/** The programs of the README, in order. */
export function readmePrograms(): string[] {
  const text = readFileSync(join(PACKAGE, "README.md"), "utf8");
  return [...text.matchAll(/^```python\n(.*?)^```/gms)].map(([, program = ""]) => program);
}
