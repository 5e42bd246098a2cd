/**
 * The script of the reference page: Scalar, which scripts/build-reference.ts takes from npm.
 *
 * It is a module of the Worker and not a static asset. Cloudflare runs a router before a Worker
 * with static assets, and the router may change the request target, which the signature covers.
 */

export const SCRIPT_PATH = "/docs/scalar.js";

type Script = { gzipped: ArrayBuffer; version: string };
let script: Script | undefined;

/** The URL changes with the content, so that caches may keep the script indefinitely. */
export async function scriptUrl(): Promise<string> {
  const { version } = await loadScript();
  return `${SCRIPT_PATH}?v=${version}`;
}

export async function scriptResponse(request: Request): Promise<Response> {
  const { gzipped, version } = await loadScript();
  // During a deployment, a page of the new version may request the script from an old instance.
  const isCurrent = new URL(request.url).searchParams.get("v") === version;
  const headers = {
    "content-type": "text/javascript; charset=utf-8",
    "cache-control": isCurrent ? "public, max-age=31536000, immutable" : "no-cache",
    vary: "Accept-Encoding",
  };
  if (/\bgzip\b/.test(request.headers.get("accept-encoding") ?? "")) {
    return new Response(gzipped, {
      headers: { ...headers, "content-encoding": "gzip" },
      encodeBody: "manual",
    });
  }
  return new Response(new Blob([gzipped]).stream().pipeThrough(new DecompressionStream("gzip")), {
    headers,
  });
}

/**
 * Imports the script on the first request, because Node imports this file too and cannot import the
 * script. Stores the value and not the promise, because the promise of a cancelled request may
 * never settle.
 */
async function loadScript(): Promise<Script> {
  if (script === undefined) {
    const { default: gzipped } = await import("../../../dist/reference/scalar.js.gz.bin");
    const digest = await crypto.subtle.digest("SHA-256", gzipped);
    script = { gzipped, version: Buffer.from(digest, 0, 8).toString("hex") };
  }
  return script;
}
