/**
 * Loads the service's source into Node: a fake of `cloudflare:workers`, small limits that few
 * commands reach, and the patch of a mutant.
 */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { lastFileWith } from "../migrations/files.ts";
import type { Mutant } from "./mutants.ts";

const WORKERS = new URL("./cloudflare-workers.ts", import.meta.url).href;

type Patch = Pick<Mutant, "name" | "file" | "find" | "replace">;

/** A side of a request has three places, so that quotes outbid others. */
const SMALL_LIMITS: readonly Patch[] = [
  {
    name: "small-side",
    file: "src/rfq/quote-preconditions.ts",
    find: "MAX_OPEN_QUOTES_PER_SIDE = 500",
    replace: "MAX_OPEN_QUOTES_PER_SIDE = 3",
  },
  { name: "small-side", file: "migrations", find: "OFFSET 499", replace: "OFFSET 2" },
  { name: "small-side", file: "migrations", find: ">= 500", replace: ">= 3" },
];

let patches: readonly Patch[] = SMALL_LIMITS;

export function loadService(mutant: Mutant | undefined): void {
  if (mutant !== undefined) patches = [...SMALL_LIMITS, mutant];
  const of = (url: string) =>
    patches.filter(({ file }) => url === new URL(`../../${file}`, import.meta.url).href);
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === "cloudflare:workers"
        ? { url: WORKERS, format: "module-typescript", shortCircuit: true }
        : next(specifier, context),
    load: (url, context, next) =>
      of(url).length === 0
        ? next(url, context)
        : {
            format: "module-typescript",
            source: of(url).reduce(patch, readFileSync(fileURLToPath(url), "utf8")),
            shortCircuit: true,
          },
  });
}

/** The text of a migration, patched if a patch is of it. */
export function migrationText(name: string): string {
  const url = new URL(`../../migrations/${name}`, import.meta.url);
  const text = readFileSync(fileURLToPath(url.href), "utf8");
  // A changed trigger has a new file, and only that one counts.
  return patches
    .filter(({ file, find }) => file === "migrations" && name === lastFileWith(find))
    .reduce(patch, text);
}

function patch(source: string, { name, find, replace }: Patch): string {
  if (!source.includes(find)) throw new Error(`mutant ${name}: the source has no ${find}`);
  return source.replaceAll(find, () => replace);
}
