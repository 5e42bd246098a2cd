/**
 * The main module of a local Worker, which wraps the bundled one and sets CF-Connecting-IP to
 * 127.0.0.1. `allowed_ips` and the rate limits by address depend on this header. Cloudflare always
 * sets it, but Miniflare keeps the value that a client sends. The stack listens on 127.0.0.1 only,
 * so every call comes from there.
 */
import { dirname, join } from "node:path";
import type { BundledModule } from "./bundle.ts";

/** An entrypoint that keeps CF-Connecting-IP as sent, for generated calls from many addresses. */
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

/** Puts that module before those of the bundle, because the first one is the main module. */
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
