/** What one run of tests says about a mutant. */
import { inspect } from "node:util";

export type Verdict = {
  readonly verdict: "caught" | "SURVIVED" | "INVALID";
  readonly detail: string;
};

/** `state` is that of Vitest: passed, failed, skipped, pending or queued. */
export type RunModule = {
  readonly file: string;
  readonly state: string;
  /** Empty if the file did not load. */
  readonly tests: readonly { readonly name: string; readonly state: string }[];
  readonly error: string | undefined;
};

/**
 * A mutant survives only if every file ran to its end. Vitest skips the files of a run that it
 * cancels, and `bail` may cancel late: the cancellation that the last test of a file asks for can
 * reach the run of the next mutant.
 */
export function verdictOf({
  files,
  modules,
  errors,
}: {
  readonly files: readonly string[];
  readonly modules: readonly RunModule[];
  readonly errors: readonly unknown[];
}): Verdict {
  const failed = modules.filter(({ state }) => state === "failed");
  const caughtBy = failed.find(({ tests }) => tests.length > 0);
  if (caughtBy !== undefined) {
    const test = caughtBy.tests.find(({ state }) => state === "failed");
    return { verdict: "caught", detail: `${caughtBy.file} > ${test?.name ?? "a hook"}` };
  }
  // Any test would "catch" a mutant that does not even load.
  if (failed.length > 0) return { verdict: "INVALID", detail: failed[0]?.error ?? "" };
  const texts = errors.map((error) => inspect(error));
  // Vitest could not start or end a process. That is not an effect of the mutant.
  const ofPool = texts.some((text) => text.includes("[vitest-pool]"));
  if (texts[0] !== undefined) return { verdict: ofPool ? "INVALID" : "caught", detail: texts[0] };
  const unfinished = files.filter((file) => !modules.some((module) => isFinished(module, file)));
  return unfinished.length === 0
    ? { verdict: "SURVIVED", detail: "" }
    : { verdict: "INVALID", detail: `did not run: ${unfinished.join(" ")}` };
}

function isFinished({ file, state }: RunModule, name: string): boolean {
  return file === name && state === "passed";
}
