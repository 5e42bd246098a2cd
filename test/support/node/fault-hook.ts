/** The other end of src/platform/fault.ts: the Worker asks at its named points, and is left waiting at one of them. */
import { createServer } from "node:http";

export type FaultHook = {
  /** Settings that make a Worker ask here. */
  vars: Record<string, string>;
  /** Resolves when the Worker stands at the point. It stays there: kill it. Whoever comes there later passes. */
  stopAt(point: string): Promise<void>;
  close(): void;
};

export async function startFaultHook(): Promise<FaultHook> {
  let awaited: { point: string; resolve: () => void } | null = null;
  const server = createServer((request, response) => {
    const point = new URL(request.url ?? "/", "http://hook").searchParams.get("point");
    if (awaited === null || awaited.point !== point) return void response.end();
    const { resolve } = awaited;
    awaited = null;
    return resolve();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    vars: { FAULT_HOOK_URL: `http://127.0.0.1:${address.port}/` },
    stopAt: (point) => new Promise((resolve) => (awaited = { point, resolve })),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
