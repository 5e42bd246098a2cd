/**
 * The reference page's script: `dist/browser/standalone.js` of @scalar/api-reference (scalar.LICENSE), gzipped, kept here
 * because the package would bring 279 others for this one file. scripts/docs-script.ts compares and renews it.
 *
 * A module of the Worker rather than an asset directory: with one, Cloudflare puts a router before every call, and the
 * signature of a call covers its target as it arrived.
 */

/** Named after its content, so that caches may keep it for ever. */
export const SCRIPT_PATH = "/docs/scalar-1.72.1.js";

export async function scriptResponse(request: Request): Promise<Response> {
  // Imported when asked for: Node, which makes docs/openapi.json, cannot import it.
  const { default: gzipped } = await import("./scalar-1.72.1.js.gz.bin");
  const headers = {
    "content-type": "text/javascript; charset=utf-8",
    "cache-control": "public, max-age=31536000, immutable",
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
