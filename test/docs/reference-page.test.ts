import { expect, it } from "vitest";
import { codeOf, send } from "../support/http.ts";

async function scriptOf(page: Response): Promise<string> {
  const [, url] = /src="([^"]+)"/.exec(await page.text()) ?? [];
  if (url === undefined) throw new Error("the page has no script");
  return url;
}

it("allows only scripts with the nonce of this response", async () => {
  const nonces = new Set<string>();
  for (const page of [await send("/docs"), await send("/docs")]) {
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    const policy = page.headers.get("content-security-policy") ?? "";
    const [, nonce = ""] = /script-src 'nonce-([0-9a-f-]{36})';/.exec(policy) ?? [];
    nonces.add(nonce);
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("connect-src 'self'");
    const tags = (await page.text()).match(/<script[^>]*>/g) ?? [];
    expect(tags).toHaveLength(2);
    for (const tag of tags) expect(tag).toContain(`nonce="${nonce}"`);
  }
  expect(nonces.size).toBe(2);
});

it("the page refers to no other host", async () => {
  expect(await (await send("/docs")).text()).not.toMatch(/\/\//);
});

it("serves the same script with and without gzip", async () => {
  const url = await scriptOf(await send("/docs"));
  const plain = await send(url, { headers: { "accept-encoding": "identity" } });
  const zipped = await send(url, { headers: { "accept-encoding": "gzip" } });
  expect(plain.headers.get("content-encoding")).toBeNull();
  expect(zipped.headers.get("content-encoding")).toBe("gzip");
  const text = await plain.text();
  expect(text).toContain("createApiReference");
  expect(text).toMatch(/^\/\*! @scalar\/fastify-api-reference [\d.]+\n\nMIT License/);
  const unzipped = zipped.body?.pipeThrough(new DecompressionStream("gzip"));
  expect(await new Response(unzipped).text()).toBe(text);
});

it("lets caches keep only the current version of the script", async () => {
  const url = await scriptOf(await send("/docs"));
  const cacheControl = async (path: string) => (await send(path)).headers.get("cache-control");
  expect(await cacheControl(url)).toBe("public, max-age=31536000, immutable");
  expect(await cacheControl("/docs/scalar.js")).toBe("no-cache");
  expect(await cacheControl("/docs/scalar.js?v=0000000000000000")).toBe("no-cache");
});

it.each(["/", "/docs/"])("redirects browsers only from %s", async (path) => {
  const accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
  for (const method of ["GET", "HEAD"]) {
    const redirect = await send(path, { method, headers: { accept } });
    expect([redirect.status, redirect.headers.get("location")]).toEqual([302, "/docs"]);
    expect(redirect.headers.get("cache-control")).toBe("no-store");
  }
  for (const headers of [{}, { accept: "*/*" }, { accept: "application/json" }]) {
    expect(await codeOf(await send(path, { headers }))).toBe("404 route_unknown");
  }
  expect(await codeOf(await send(path, { method: "POST", headers: { accept } }))).toBe(
    "404 route_unknown",
  );
});

it("serves the description of the streams with every record that it refers to", async () => {
  const response = await send("/asyncapi.json");
  expect(response.headers.get("content-type")).toBe("application/json");
  const text = await response.text();
  const streams = JSON.parse(text) as { components: { schemas: Record<string, unknown> } };
  expect(streams).toMatchObject({ asyncapi: "3.0.0" });
  const { components } = await (
    await send("/openapi.json")
  ).json<{ components: { schemas: Record<string, unknown> } }>();
  const named = new Set([...text.matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref = ""]) => ref));
  const names = [...named].filter((ref) => ref.startsWith("#/components/schemas/"));
  expect(names.length).toBeGreaterThan(30);
  expect(text).not.toContain("openapi.json#");
  for (const ref of names)
    expect(streams.components.schemas).toHaveProperty([ref.slice("#/components/schemas/".length)]);
  expect(streams.components.schemas["Amount"]).toEqual(components.schemas["Amount"]);
});
