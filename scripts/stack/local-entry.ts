/**
 * The main module of a local Worker, which wraps the bundled one and sets CF-Connecting-IP to
 * 127.0.0.1. `allowed_ips` and the rate limits by address depend on this header. Cloudflare always
 * sets it, but Miniflare keeps the value that a client sends. The stack listens on 127.0.0.1 only,
 * so every call comes from there.
 */
import { dirname, join } from "node:path";
import type { BundledModule } from "./bundle.ts";

/**
 * The entrypoint `Operator`, reached only with the path that operator.json names. Otherwise a web
 * page that finds the port could run operator commands in a developer's stack.
 */
export const LOCAL_OPERATOR = "LocalOperator";

/** An entrypoint that keeps CF-Connecting-IP as sent, for generated calls from many addresses. */
export const AS_SENT = "AsSent";

const MODULE = `
import { WorkerEntrypoint } from "cloudflare:workers";
import worker, { Operator } from "./worker.js";
export * from "./worker.js";
export default {
  ...worker,
  fetch(request, env, context) {
    const seen = new Request(request);
    seen.headers.set("cf-connecting-ip", "127.0.0.1");
    return worker.fetch(seen, env, context);
  },
};
export class ${LOCAL_OPERATOR} extends Operator {
  fetch(request) {
    if (new URL(request.url).pathname !== "/" + this.env.LOCAL_OPERATOR_TOKEN)
      return new Response("Use the address in .stack/operator.json.", { status: 403 });
    return super.fetch(request);
  }
}
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
