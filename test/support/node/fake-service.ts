/**
 * A loopback HTTP server for tests of the client. It replies from a script and records requests.
 */
import { type IncomingHttpHeaders, createServer } from "node:http";

export type Received = {
  method: string;
  target: string;
  headers: IncomingHttpHeaders;
  body: Buffer;
};
export type Reply = {
  status?: number;
  headers?: Record<string, string>;
  body?: unknown;
  hangUp?: boolean;
};

export type FakeService = { baseUrl: string; received: Received[]; stop(): Promise<void> };

/** `reply` receives each request and its index. */
export async function startFakeService(
  reply: (request: Received, index: number) => Reply,
): Promise<FakeService> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const it = {
        method: request.method ?? "",
        target: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(chunks),
      };
      received.push(it);
      const {
        status = 200,
        headers = {},
        body = {},
        hangUp = false,
      } = reply(it, received.length - 1);
      if (hangUp) return void request.socket.destroy();
      const type = status < 400 ? "application/json" : "application/problem+json";
      response.writeHead(status, { "content-type": type, ...headers }).end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    baseUrl: `http://127.0.0.1:${address.port}`,
    received,
    stop: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
