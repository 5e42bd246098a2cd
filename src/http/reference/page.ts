/**
 * The page of the API reference. The browser loads its script and the descriptions from this
 * service. The script is Scalar, which scripts/build-reference.ts takes from npm.
 *
 * It is a module of the Worker and not a static asset. Cloudflare runs a router before a Worker
 * with static assets, and the router may change the request target, which the signature covers.
 */

const OPTIONS = {
  sources: [
    { title: "REST", slug: "rest", url: "/openapi.json" },
    { title: "Streams", slug: "streams", url: "/asyncapi.json" },
  ],
  theme: "default",
  // These options are off because each would contact another server.
  withDefaultFonts: false,
  telemetry: false,
  hideClientButton: true,
  showDeveloperTools: "never",
  agent: { disabled: true },
  mcp: { disabled: true },
};

export async function pageResponse(): Promise<Response> {
  const nonce = crypto.randomUUID();
  // The URL changes with the content, so that caches may keep the script indefinitely.
  const script = `${SCRIPT_PATH}?v=${(await loadScript()).version}`;
  // The icon is inline, because a browser would otherwise request /favicon.ico and report a 404.
  const page = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <title>Custody and RFQ trading: API reference</title>
    <link rel="icon" href="data:," />
  </head>
  <body>
    <div id="app"></div>
    <script nonce="${nonce}" src="${script}"></script>
    <script nonce="${nonce}">Scalar.createApiReference("#app", ${JSON.stringify(OPTIONS)})</script>
  </body>
</html>
`;
  return new Response(page, {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": contentPolicy(nonce),
    },
  });
}

/** Allows the two scripts of the page, their inline images and fonts, and calls to this service. */
function contentPolicy(nonce: string): string {
  return [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    // The script sets style attributes, which a nonce cannot allow.
    "style-src 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}

export const SCRIPT_PATH = "/docs/scalar.js";

type Script = { gzipped: ArrayBuffer; version: string };
let script: Script | undefined;

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
 * Imported on the first request, because Node imports this file too and cannot import the script.
 * Stores no promise, because the promise of a cancelled request may never settle.
 */
async function loadScript(): Promise<Script> {
  if (script === undefined) {
    const { default: gzipped } = await import("../../../dist/reference/scalar.js.gz.bin");
    const digest = await crypto.subtle.digest("SHA-256", gzipped);
    script = { gzipped, version: Buffer.from(digest, 0, 8).toString("hex") };
  }
  return script;
}
