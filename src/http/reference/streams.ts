/** The description of the streams, which scripts/build-reference.ts makes of docs/asyncapi.yaml. */

let description: ArrayBuffer | undefined;

export async function streamsResponse(): Promise<Response> {
  // Imported on the first request, because Node imports this file too and cannot import the data.
  description ??= (await import("../../../dist/reference/asyncapi.json.bin")).default;
  return new Response(description, {
    headers: { "content-type": "application/json", "cache-control": "public, max-age=300" },
  });
}
