/**
 * Loads the service's source into Node: fakes of `cloudflare:workers` and of compression, and the
 * patch of a mutant.
 */
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { lastFileWith } from "../migrations/files.ts";
import type { Mutant } from "./mutants.ts";

const WORKERS = new URL("./cloudflare-workers.ts", import.meta.url).href;
const COMPRESS = new URL("./compress.ts", import.meta.url).href;

let active: Mutant | undefined;

export function loadService(mutant: Mutant | undefined): void {
  active = mutant;
  const patched =
    mutant === undefined ? undefined : new URL(`../../${mutant.file}`, import.meta.url).href;
  registerHooks({
    resolve: (specifier, context, next) => {
      const fake =
        specifier === "cloudflare:workers"
          ? WORKERS
          : specifier.endsWith("/compress.ts")
            ? COMPRESS
            : undefined;
      return fake === undefined
        ? next(specifier, context)
        : { url: fake, format: "module-typescript", shortCircuit: true };
    },
    load: (url, context, next) =>
      mutant === undefined || url !== patched
        ? next(url, context)
        : {
            format: "module-typescript",
            source: patch(readFileSync(fileURLToPath(url), "utf8"), mutant),
            shortCircuit: true,
          },
  });
}

/** The text of a migration, patched if the mutant is in it. */
export function migrationText(name: string): string {
  const url = new URL(`../../migrations/${name}`, import.meta.url);
  const text = readFileSync(fileURLToPath(url.href), "utf8");
  // A changed trigger has a new file, and only that one counts.
  return active?.file === "migrations" && name === lastFileWith(active.find)
    ? patch(text, active)
    : text;
}

function patch(source: string, { name, find, replace }: Mutant): string {
  if (!source.includes(find)) throw new Error(`mutant ${name}: the source has no ${find}`);
  return source.replaceAll(find, () => replace);
}
