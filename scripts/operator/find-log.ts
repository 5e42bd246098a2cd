/** Finds what the Worker logged about one request, in the local stack's log or in an export. */
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { OperatorResponse } from "../stack/operator-call.ts";

/** Lines of JSON that name the request, as the service's own id or as the caller's. */
export async function findLog(
  dir: string,
  { in: file = join(dir, "worker.log"), "request-id": requestId = "" }: Record<string, string>,
): Promise<OperatorResponse> {
  const found: unknown[] = [];
  for await (const line of createInterface({ input: createReadStream(file) })) {
    const start = line.indexOf("{");
    if (start < 0 || !line.includes(requestId)) continue;
    try {
      found.push(JSON.parse(line.slice(start)));
    } catch {
      found.push({ line });
    }
  }
  return { ok: true, result: found };
}
