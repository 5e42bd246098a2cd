/** A copy of the project, and a process in it that runs the tests of one mutant after the other. */
import { type ChildProcess, fork } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Order } from "./judge.ts";
import type { Mutant } from "./mutant.ts";
import type { Verdict } from "./verdict.ts";

const ROOT = resolve(import.meta.dirname, "../..");
/** What the tests need. node_modules is a link. */
const PARTS = [
  "bench",
  "contracts",
  "dist",
  "docs",
  "examples",
  "migrations",
  "packages",
  "scripts",
  "src",
  "test",
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "vitest.config.ts",
  "worker-configuration.d.ts",
  "wrangler.toml",
];
/** A mutant that makes the tests hang counts as caught. A busy machine takes minutes. */
const DEADLINE_MS = 600_000;

export class Copy {
  readonly #folder: string;
  #process: ChildProcess | undefined;
  /** The file of the last mutant, which has its text again. */
  #last: string | undefined;

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true });
    for (const part of PARTS.filter((name) => existsSync(join(ROOT, name))))
      cpSync(join(ROOT, part), join(folder, part), { recursive: true });
    symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  }

  async judge({ file, start, end, replace, tests }: Mutant): Promise<Verdict> {
    if (start === end) return { verdict: "INVALID", detail: "its text is not found once" };
    const judge = (this.#process ??= await this.#start());
    const path = join(this.#folder, file);
    const text = readFileSync(path, "utf8");
    writeFileSync(path, text.slice(0, start) + replace + text.slice(end));
    const order: Order = { changed: [this.#last ?? path, path], tests };
    this.#last = path;
    judge.send(order);
    const deadline = setTimeout(() => this.stop(), DEADLINE_MS);
    // Safe cast: judge.ts sends nothing else.
    const verdict = (await messageOf(judge)) as Verdict | undefined;
    clearTimeout(deadline);
    writeFileSync(path, text);
    if (verdict === undefined) this.#process = undefined;
    return verdict ?? { verdict: "caught", detail: "hangs" };
  }

  /** Ends the process and its group, because workerd is a child of the child. */
  stop(): void {
    if (this.#process?.pid !== undefined) process.kill(-this.#process.pid, "SIGKILL");
  }

  async #start(): Promise<ChildProcess> {
    const judge = fork(join(this.#folder, "scripts/mutants/judge.ts"), [], {
      cwd: this.#folder,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
      env: { ...process.env, WRANGLER_LOG: "error" },
      detached: true,
    });
    await messageOf(judge);
    return judge;
  }
}

/** Undefined if the process ends first. */
function messageOf(child: ChildProcess): Promise<unknown> {
  return new Promise((done) => {
    const finish = (message?: unknown) => {
      child.off("message", finish).off("exit", exited);
      done(message);
    };
    const exited = () => finish();
    child.on("message", finish).on("exit", exited);
  });
}
