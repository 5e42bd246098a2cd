/**
 * The descriptions of the service, which scripts/build-reference.ts makes of docs/openapi.json and
 * docs/asyncapi.json. Nothing is computed here.
 */

type Imported = { readonly default: ArrayBuffer };

/** Imported on the first request, because Node imports this file too and cannot import the data. */
export async function restDescription(): Promise<Response> {
  return descriptionOf(await import("../../../dist/reference/openapi.json.bin"));
}

export async function streamsDescription(): Promise<Response> {
  return descriptionOf(await import("../../../dist/reference/asyncapi.json.bin"));
}

function descriptionOf({ default: bytes }: Imported): Response {
  return new Response(bytes, {
    headers: { "content-type": "application/json", "cache-control": "public, max-age=300" },
  });
}
