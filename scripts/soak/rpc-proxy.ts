/** An RPC endpoint in front of the soak's chain that fails or lies on command. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { Dice } from "../actors/dice.ts";
import { type Call, type Lie, lieAbout } from "./lies.ts";

export const RPC_FAULTS = ["slow", "errors", "garbage", "lagging", "lost_answers", "down"] as const;
type RpcFault = (typeof RPC_FAULTS)[number];

export type RpcProxy = {
  url: string;
  calls(): number;
  fail(fault: RpcFault | null): void;
  lie(lie: Lie | null): void;
  stop(): Promise<void>;
};

/**
 * What all proxies of a chain pass through. anvil answers what a block's state was from its live
 * state while it reorganises, so that both endpoints would agree on a wrong answer.
 */
export class Gate {
  readonly #passing = new Set<Promise<unknown>>();
  #closed: Promise<void> = Promise.resolve();

  async pass<T>(call: () => Promise<T>): Promise<T> {
    for (let closed; closed !== this.#closed;) {
      closed = this.#closed;
      await closed;
    }
    const passing = call();
    this.#passing.add(passing);
    return passing.finally(() => this.#passing.delete(passing));
  }

  /** Waits for the calls that pass and holds back others while `work` runs. */
  async closeWhile(work: () => Promise<void>): Promise<void> {
    const working = this.#closed.then(async () => {
      await Promise.allSettled(this.#passing);
      await work();
    });
    this.#closed = working.catch(() => {});
    await working;
  }
}

const SLOWEST_MS = 3_000;
/** By how many blocks a lagging node is behind. */
const LAG_BLOCKS = 5;

export async function startRpcProxy(
  target: string,
  { dice, gate }: { dice: Dice; gate: Gate },
): Promise<RpcProxy> {
  const ask = (call: Call) => gate.pass(() => forward(target, call));
  let fault: RpcFault | null = null;
  let lie: Lie | null = null;
  let calls = 0;
  const server = createServer((request, response) => {
    calls++;
    serve({ ask, dice, fault, lie }, request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    url: `http://127.0.0.1:${address.port}`,
    calls: () => calls,
    fail: (next) => void (fault = next),
    lie: (next) => void (lie = next),
    stop: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

type Ask = (call: Call) => Promise<{ result?: unknown }>;
type Way = { ask: Ask; dice: Dice; fault: RpcFault | null; lie: Lie | null };

async function serve(
  { ask, dice, fault, lie }: Way,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const call = JSON.parse(Buffer.concat(chunks).toString()) as Call;
  const respond = (body: unknown) =>
    void response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body));
  if (fault === "down") return void response.destroy();
  if (fault === "garbage" && dice.chance(0.5))
    return void response.writeHead(200).end("<html>Service Unavailable</html>");
  if (fault === "errors" && dice.chance(0.5)) {
    if (dice.chance(0.5)) return void response.writeHead(dice.pick([429, 500, 502])).end();
    return respond({
      jsonrpc: "2.0",
      id: call.id,
      error: { code: -32_603, message: "Internal error" },
    });
  }
  if (fault === "slow") await sleep(dice.between(50, SLOWEST_MS));
  const result =
    lie !== null
      ? await lieAbout(lie, call, ask)
      : fault === "lagging"
        ? await lagging(ask, call)
        : await ask(call);
  // The node has processed the call, for example a transaction, but its sender gets no response.
  if (fault === "lost_answers" && dice.chance(0.5)) return void response.destroy();
  respond(result);
}

async function forward(target: string, call: Call): Promise<{ result?: unknown }> {
  const response = await fetch(target, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", ...call }),
  });
  return (await response.json()) as { result?: unknown };
}

/** Acts as a node that is some blocks behind. It knows no later block and none of their logs. */
async function lagging(ask: Ask, call: Call): Promise<unknown> {
  const { result } = await ask({ id: 0, method: "eth_blockNumber" });
  const head = Math.max(0, Number(result) - LAG_BLOCKS);
  const [first] = call.params ?? [];
  const named = (value: unknown) => ({ jsonrpc: "2.0", id: call.id, result: value });
  if (call.method === "eth_blockNumber") return named(`0x${head.toString(16)}`);
  if (call.method === "eth_getBlockByNumber") {
    if (first === "latest") return ask({ ...call, params: [`0x${head.toString(16)}`, false] });
    if (Number(first) > head) return named(null);
  }
  if (call.method === "eth_getLogs" && Number((first as { toBlock?: string }).toBlock) > head)
    return named([]);
  // Only "latest" means another block. Calls about a certain block get the data of that block.
  if (call.params?.[1] === "latest" || call.params?.[1] === "pending") {
    return ask({ ...call, params: [first, `0x${head.toString(16)}`] });
  }
  return ask(call);
}
