/** Bundles the Worker as `wrangler deploy` would upload it. */
import { readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runChild } from "./run-child.ts";

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
export const WRANGLER_CONFIG = join(ROOT, "wrangler.toml");

/** Without these, wrangler sends usage statistics and fetches a sample `request.cf`. */
export const OFFLINE = { WRANGLER_SEND_METRICS: "false", CLOUDFLARE_CF_FETCH_ENABLED: "false" };

export type BundledModule = { type: "ESModule" | "CompiledWasm" | "Text" | "Data"; path: string };

const MODULE_TYPES: Record<string, BundledModule["type"]> = {
  ".js": "ESModule",
  ".wasm": "CompiledWasm",
  ".txt": "Text",
  ".html": "Text",
  ".sql": "Text",
  ".bin": "Data",
};

/**
 * Bundles into `outdir` and returns the modules, the main one first. Failpoints are left out unless
 * asked for, as in a deployment. Throws with the output of wrangler if the Worker does not bundle.
 */
export async function bundleWorker(
  outdir: string,
  { failpoints = false }: { failpoints?: boolean } = {},
): Promise<BundledModule[]> {
  const manifest = createRequire(import.meta.url).resolve("wrangler/package.json");
  const wrangler = join(dirname(manifest), "bin", "wrangler.js");
  const args = [wrangler, "deploy", "--name", "rfq-custody", "--dry-run", "--outdir", outdir];
  args.push("--config", WRANGLER_CONFIG);
  if (failpoints) args.push("--define", "FAILPOINTS:true");
  const { code, stdout, stderr } = await runChild(process.execPath, args, {
    cwd: ROOT,
    env: { ...process.env, ...OFFLINE, NO_COLOR: "1" },
  });
  if (code !== 0)
    throw new Error(
      `The Worker does not bundle (wrangler ended with ${code}):\n${stdout}${stderr}`.trim(),
    );
  return modulesOf(outdir);
}

function modulesOf(outdir: string): BundledModule[] {
  const modules = readdirSync(outdir).flatMap((name) => {
    const type = MODULE_TYPES[extname(name)];
    return type === undefined ? [] : [{ type, path: join(outdir, name) }];
  });
  const isMain = (module: BundledModule) => module.path === join(outdir, "worker.js");
  return [...modules.filter(isMain), ...modules.filter((module) => !isMain(module))];
}
