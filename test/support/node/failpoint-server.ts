/** The server that a Worker with failpoints calls (src/platform/failpoint.ts). */
import { createServer } from "node:http";

export type FailpointServer = {
  /** The setting FAILPOINT_URL of the Worker. */
  url: string;
  /**
   * Resolves when the Worker has reached the failpoint, where it waits until it is killed. The
   * Worker passes the other failpoints.
   */
  stopAt(name: string): Promise<void>;
  close(): void;
};

export async function startFailpointServer(): Promise<FailpointServer> {
  let awaited: { name: string; resolve: () => void } | null = null;
  const server = createServer((request, response) => {
    const name = new URL(request.url ?? "/", "http://failpoint").searchParams.get("name");
    if (awaited === null || awaited.name !== name) return void response.end();
    const { resolve } = awaited;
    awaited = null;
    return resolve();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}/`,
    stopAt: (name) => new Promise((resolve) => (awaited = { name, resolve })),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}
