/**
 * Reads that move money. With two or more endpoints configured, at least two must return the same
 * result. One that is faulty, lagging or unreachable can then neither move money nor stop the
 * others, as long as two correct ones are left. With a single endpoint its result is used.
 */
import { type ChainConfig, witnessesOf } from "../platform/config.ts";
import {
  type Endpoint,
  endpoints,
  type Failures,
  gather,
  hostOf,
  jitteredPause,
  RpcUnavailable,
} from "./rpc.ts";

/** Endpoints returned different results and not enough agreed. The message names their hosts. */
export class EndpointsDisagree extends Error {
  override readonly name = "EndpointsDisagree";
  constructor(chain: string, groups: readonly { readonly members: readonly Endpoint[] }[]) {
    const sides = groups.map(({ members }) => members.map(({ url }) => hostOf(url)).join(" and "));
    super(`the endpoints of ${chain} disagree: ${sides.join(" against ")}`);
  }
}

const RETRY_MS = 400;

export type Agreed<T> = {
  readonly value: T;
  /** One of the endpoints that agreed. */
  readonly endpoint: Endpoint;
  /** Hosts that returned another result, while enough others agreed. */
  readonly dissenters: readonly string[];
};

/**
 * Calls `ask` for as many endpoints as `witnessesOf` demands, from the index `preferred` on, so
 * that one that lies is not always first. `ask` throws if its endpoint has no usable result, for
 * example because it lags. If the results differ or one fails, as a slow one does within a second,
 * it calls the others and those that failed, all at once, and waits only for as many as decide.
 * Results agree if `textOf` returns the same text. Throws `EndpointsDisagree` if no group is both
 * large enough and the largest, or `RpcUnavailable` if too few endpoints returned a result.
 */
export async function askAgreed<T>(
  chain: ChainConfig,
  ask: (endpoint: Endpoint) => Promise<T>,
  preferred = 0,
  textOf: (value: T) => string = jsonOf,
): Promise<Agreed<T>> {
  const needed = witnessesOf(chain);
  const groups = new Map<string, { value: T; members: Endpoint[] }>();
  const answered = new Set<string>();
  const failures: Failures = new Map();
  const askOne = async (endpoint: Endpoint): Promise<void> => {
    try {
      const value = await ask(endpoint);
      const text = textOf(value);
      const group = groups.get(text) ?? { value, members: [] };
      group.members.push(endpoint);
      failures.delete(endpoint.url);
      groups.set(text, group);
      answered.add(endpoint.url);
    } catch (error) {
      failures.set(endpoint.url, error);
    }
  };
  await Promise.all(endpoints(chain, "quick", preferred).slice(0, needed).map(askOne));
  if (groups.size !== 1 || failures.size > 0) {
    // An endpoint that lags by a block has it after a moment.
    if (failures.size > 0) await jitteredPause(RETRY_MS);
    const rest = endpoints(chain, "patient", preferred).filter(({ url }) => !answered.has(url));
    const total = answered.size + rest.length;
    await gather(rest.map(askOne), () => isDecided([...groups.values()], needed, total));
  }

  const bySize = [...groups.values()].toSorted((a, b) => b.members.length - a.members.length);
  const [largest, ...others] = bySize;
  const [endpoint] = largest?.members ?? [];
  if (largest !== undefined && endpoint !== undefined && isDecided(bySize, needed, answered.size)) {
    const dissenters = others.flatMap(({ members }) => members.map(({ url }) => hostOf(url)));
    return { value: largest.value, endpoint, dissenters };
  }
  if (others.length > 0) throw new EndpointsDisagree(chain.chain, bySize);
  throw new RpcUnavailable(chain.chain, failures, needed, answered.size);
}

/** The value as JSON, with its bigints as text. */
export function jsonOf(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === "bigint" ? part.toString() : part,
  );
}

/** Whether a group is large enough, and larger than any other can still become. */
function isDecided(
  groups: readonly { readonly members: readonly unknown[] }[],
  needed: number,
  total: number,
): boolean {
  const [largest = 0, second = 0] = groups
    .map(({ members }) => members.length)
    .toSorted((a, b) => b - a);
  const answered = groups.reduce((sum, { members }) => sum + members.length, 0);
  return largest >= needed && largest > second + total - answered;
}

/** The highest value that enough endpoints reach, so that a single wrong height has no effect. */
export async function askHighest(
  chain: ChainConfig,
  ask: (endpoint: Endpoint) => Promise<number>,
): Promise<{ readonly height: number; readonly highest: number }> {
  const needed = witnessesOf(chain);
  const reached = new Map<string, number>();
  const failures: Failures = new Map();
  const askOne = async (endpoint: Endpoint): Promise<void> => {
    try {
      reached.set(endpoint.url, await ask(endpoint));
      failures.delete(endpoint.url);
    } catch (error) {
      failures.set(endpoint.url, error);
    }
  };
  await Promise.all(endpoints(chain).map(askOne));
  if (reached.size < needed && chain.rpc_urls.length > 1) {
    const rest = endpoints(chain, "patient").filter(({ url }) => !reached.has(url));
    await gather(rest.map(askOne), () => reached.size >= needed);
  }
  const values = [...reached.values()].toSorted((a, b) => b - a);
  const [highest] = values;
  const height = values[needed - 1];
  if (height === undefined || highest === undefined)
    throw new RpcUnavailable(chain.chain, failures, needed, reached.size);
  return { height, highest };
}
