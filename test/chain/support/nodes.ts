/** RPC endpoints of a stage that a test can take away, hold back or make lie, one by one. */
import { toHex } from "viem";
import type { Stage } from "./stage.ts";

export type Lie = (method: string, result: unknown, params: unknown) => unknown;

export type Node = {
  /** Whether every call fails. */
  away: boolean;
  /** Whether responses have headers, and a body that never ends. A string: of all other methods. */
  hangs: boolean | string;
  /** How often it was called. */
  calls: number;
  /** Transactions to which the chain behind it has responded. */
  sent: number;
  /** The block that it takes for the head. */
  stuckAt?: number;
  lie?: Lie | undefined;
};

/** Replaces the endpoints of the stage's chain, for its watcher and its payer. */
export async function withNodes(stage: Stage, count: 2 | 3): Promise<Node[]> {
  const nodes: Node[] = [];
  const rpc_urls: string[] = [];
  for (let index = 0; index < count; index++) {
    const node: Node = { away: false, hangs: false, calls: 0, sent: 0 };
    nodes.push(node);
    rpc_urls.push(
      await stage.faultyEndpoint(
        (method, result, params) => {
          if (method === "eth_sendRawTransaction") node.sent++;
          if (node.away) throw new Error("away");
          if (isMissing(node, method, params)) return null;
          return node.lie === undefined ? result : node.lie(method, result, params);
        },
        (call) => {
          node.calls++;
          return node.stuckAt !== undefined && isHead(call)
            ? { ...call, params: [toHex(node.stuckAt), false] }
            : call;
        },
        (method) => (typeof node.hangs === "string" ? method !== node.hangs : node.hangs),
      ),
    );
  }
  Object.assign(stage.chain, { rpc_urls });
  return nodes;
}

function isHead(call: { readonly method: string; readonly params: unknown }): boolean {
  const [at] = call.params as unknown[];
  return call.method === "eth_getBlockByNumber" && at === "latest";
}

function isMissing({ stuckAt }: Node, method: string, params: unknown): boolean {
  const [at] = (params ?? []) as unknown[];
  return stuckAt !== undefined && method === "eth_getBlockByNumber" && Number(at) > stuckAt;
}
