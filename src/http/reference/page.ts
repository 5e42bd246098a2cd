/**
 * The page of the API reference. The browser loads its script and the descriptions from this
 * service.
 */
import { scriptUrl } from "./script.ts";

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
  return new Response(page({ nonce, script: await scriptUrl() }), {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": contentPolicy(nonce),
    },
  });
}

/** The icon is inline, because a browser would otherwise request /favicon.ico and report a 404. */
function page({ nonce, script }: { nonce: string; script: string }): string {
  return `<!doctype html>
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
