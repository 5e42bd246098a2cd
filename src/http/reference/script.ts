/**
 * The script of the reference page: Scalar, which scripts/build-reference.ts takes from npm.
 *
 * It is a module of the Worker and no static asset, because Cloudflare puts a router before a Worker
 * with static assets, and the signature of a call covers its target as it arrived.
 */

export const SCRIPT_PATH = "/docs/scalar.js";

type Script = { gzipped: ArrayBuffer; version: string };
let script: Script | undefined;

/** The URL changes with the content, so that caches may keep what they fetch from it. */
export async function scriptUrl(): Promise<string> {
  const { version } = await loadScript();
  return `${SCRIPT_PATH}?v=${version}`;
}

export async function scriptResponse(request: Request): Promise<Response> {
  const { gzipped, version } = await loadScript();
  // During a deployment a page of the new version may ask an instance of the old one.
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
 * Imported at the first request, because Node imports this file too and cannot import the script.
 * Only the value is kept: a promise of a request that was cancelled may never settle.
 */
async function loadScript(): Promise<Script> {
  if (script === undefined) {
    const { default: gzipped } = await import("../../../dist/reference/scalar.js.gz.bin");
    const digest = await crypto.subtle.digest("SHA-256", gzipped);
    script = { gzipped, version: Buffer.from(digest, 0, 8).toString("hex") };
  }
  return script;
}
