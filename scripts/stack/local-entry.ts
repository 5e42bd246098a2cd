/**
 * The main module of a local Worker, around the bundled one. `allowed_ips` and the limits by address go by CF-Connecting-IP,
 * which Cloudflare sets whatever the client sent; Miniflare sets it only where the client did not. The stack listens on
 * 127.0.0.1 alone, so that is where every call comes from.
 */
import { dirname, join } from "node:path";
import type { BundledModule } from "./bundle.ts";

/** An entrypoint for generated calls that are to come from many addresses: CF-Connecting-IP as it was sent. */
export const AS_SENT = "AsSent";

const MODULE = `
import { WorkerEntrypoint } from "cloudflare:workers";
import worker from "./worker.js";
export * from "./worker.js";
export default {
  ...worker,
  fetch(request, env, context) {
    const seen = new Request(request);
    seen.headers.set("cf-connecting-ip", "127.0.0.1");
    return worker.fetch(seen, env, context);
  },
};
export class ${AS_SENT} extends WorkerEntrypoint {
  fetch(request) {
    return worker.fetch(request, this.env, this.ctx);
  }
}
`;

/** The bundle's modules with that one before them: the first is the main module. */
export function withLocalEntry(
  modules: readonly BundledModule[],
): (BundledModule & { contents?: string })[] {
  const [worker] = modules;
  if (worker === undefined) return [];
  return [
    { type: "ESModule", path: join(dirname(worker.path), "local-entry.js"), contents: MODULE },
    ...modules,
  ];
}
