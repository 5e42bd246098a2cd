import { afterEach, describe, expect, it, vi } from "vitest";
import { endpoints, readHeader } from "../../src/chain/rpc.ts";
import type { ChainConfig } from "../../src/platform/config.ts";

const HASH = `0x${"ab".repeat(32)}`;

afterEach(() => vi.unstubAllGlobals());

describe("RPC clients", () => {
  it("do not wait for a call that another caller made and nobody will answer", async () => {
    let calls = 0;
    vi.stubGlobal("fetch", () => {
      calls++;
      // The first caller's object was reset, so its call never settles.
      return calls === 1 ? new Promise(() => {}) : Promise.resolve(blockResponse());
    });
    const [endpoint] = endpoints({ rpc_urls: ["http://node.example"] } as unknown as ChainConfig);
    if (endpoint === undefined) throw new Error("no endpoint");
    readHeader(endpoint, 7).catch(() => {});
    await expect(readHeader(endpoint, 7)).resolves.toMatchObject({ number: 7, hash: HASH });
    expect(calls).toBe(2);
  });
});

function blockResponse(): Response {
  const result = {
    number: "0x7",
    hash: HASH,
    parentHash: HASH,
    timestamp: "0x1",
    baseFeePerGas: "0x1",
    transactions: [],
  };
  return Response.json({ jsonrpc: "2.0", id: 1, result });
}
