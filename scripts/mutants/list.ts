/**
 * Small wrong changes of the code that decides about money, each of which a test must notice: those
 * that a structure gives, and ideas. Snapshots of SQL are not among their tests, because they fail
 * for any change.
 */
import { globSync, readFileSync } from "node:fs";
import { mutantsOfSource, mutantsOfTriggers } from "./generate.ts";
import { IDEAS } from "./ideas/all.ts";
import { type Mutant, SCHEMA, testsOf } from "./mutant.ts";
import { SCOPE } from "./scope.ts";

export function allMutants(): Mutant[] {
  return [...generated(), ...IDEAS];
}

export function generated(): Mutant[] {
  const sources = globSync(["src/**/*.ts", `${SCHEMA}/*.sql`]).toSorted();
  return sources.flatMap((file) => {
    const make = file.startsWith(SCHEMA) ? mutantsOfTriggers : mutantsOfSource;
    return make(readFileSync(file, "utf8"), file).flatMap((edit) => {
      const tests = scopeOf(edit.name);
      return tests === undefined ? [] : [{ ...edit, file, tests: testsOf(tests) }];
    });
  });
}

function scopeOf(name: string): string | undefined {
  const starts = Object.keys(SCOPE).filter((start) => name.startsWith(start));
  const longest = starts.toSorted((one, other) => other.length - one.length)[0];
  return longest === undefined ? undefined : SCOPE[longest];
}
