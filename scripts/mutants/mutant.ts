/** What a mutant is. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { lastFileWith } from "../migrations/files.ts";

export type Mutant = {
  /** `<file or trigger>: <what is wrong>`. */
  readonly name: string;
  readonly file: string;
  /** The range that `replace` takes. Empty if the text of an idea is not found once. */
  readonly start: number;
  readonly end: number;
  readonly replace: string;
  readonly tests: readonly TestFile[];
};

export type TestFile = { readonly project: string; readonly file: string };

const ENDINGS = [".test.ts", ".clock.test.ts", ".node.test.ts", ".anvil.ts"];

/** `rfq/book auth/who-may`: the files of these names in test/, in the order in which they run. */
export function testsOf(names: string): TestFile[] {
  return names.split(" ").map((name) => {
    const file = ENDINGS.map((ending) => `test/${name}${ending}`).find(existsSync);
    if (file === undefined) throw new Error(`test/${name} does not exist`);
    return { project: file.endsWith(".node.test.ts") ? "node" : "workers", file };
  });
}

/** The last file of migrations/ with the text counts, because a changed trigger has a new one. */
export const SCHEMA = "migrations";

export function fileOf({ file, find }: { readonly file: string; readonly find: string }): string {
  return file === SCHEMA ? join(SCHEMA, lastFileWith(find) ?? "") : file;
}

type Change = readonly [find: string, replace: string];

/** Mutants that no structure makes. `find` occurs exactly once in the file. */
export function ideas(
  file: string,
  tests: string,
  changes: Readonly<Record<string, Change>>,
): Mutant[] {
  return Object.entries(changes).map(([what, [find, replace]]) => {
    const path = fileOf({ file, find });
    const [before = "", ...rest] = path === SCHEMA ? [] : readFileSync(path, "utf8").split(find);
    const start = before.length;
    const end = rest.length === 1 ? start + find.length : start;
    return { name: `${file}: ${what}`, file: path, start, end, replace, tests: testsOf(tests) };
  });
}
