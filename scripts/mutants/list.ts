/**
 * Small wrong changes of the code that decides about money, each of which a test must notice: those
 * that a structure gives, and ideas. Snapshots of SQL are not among their tests, because they fail
 * for any change.
 */
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { lastFileWith } from "../migrations/files.ts";
import { mutantsOfSource, mutantsOfTriggers } from "./generate.ts";
import { ARCHIVE } from "./ideas/archive.ts";
import { AUTH } from "./ideas/auth.ts";
import { CUSTODY } from "./ideas/custody.ts";
import { REST } from "./ideas/rest.ts";
import { RFQ } from "./ideas/rfq.ts";
import { SCHEMA as OF_SCHEMA } from "./ideas/schema.ts";
import { type Mutant, SCHEMA, testsOf } from "./mutant.ts";
import { SCOPE } from "./scope.ts";

const IDEAS = [ARCHIVE, AUTH, CUSTODY, REST, RFQ, OF_SCHEMA].flat();

export function allMutants(made = generated()): Mutant[] {
  return [...made, ...IDEAS];
}

export function generated(): Mutant[] {
  const sources = globSync(["src/**/*.ts", `${SCHEMA}/*.sql`]).toSorted();
  return sources.flatMap((file) => {
    const make = file.startsWith(SCHEMA) ? mutantsOfTriggers : mutantsOfSource;
    return make(readFileSync(file, "utf8"), file).flatMap((edit) => {
      const trigger = /^trigger (\w+)/.exec(edit.name)?.[1];
      // A later file makes a changed trigger anew.
      if (trigger !== undefined && lastFileWith(`CREATE TRIGGER ${trigger} `) !== basename(file))
        return [];
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
