/**
 * Reads that move money.
 *
 * With two or more endpoints configured, at least two must return the same result. An endpoint that
 * is faulty, lagging or unreachable can then neither move money nor stop the others, as long as two
 * correct ones are left. With a single endpoint its result is used.
 */
import { type ChainConfig, witnessesOf } from "../platform/config.ts";
import { type Endpoint, endpoints, endpointsFrom, hostOf, pause, RpcUnavailable } from "./rpc.ts";

/** Endpoints returned different results and not enough agreed. The message names their hosts. */
export class EndpointsDisagree extends Error {
  constructor(chain: string, groups: readonly (readonly Endpoint[])[]) {
    const groupNames = groups.map((group) => group.map(({ url }) => hostOf(url)).join(" and "));
    super(`the endpoints of ${chain} disagree: ${groupNames.join(" against ")}`);
    this.name = "EndpointsDisagree";
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
 * Calls `ask` for as many endpoints as `witnessesOf` demands, and for the others only if those
 * differ or fail. `ask` throws if its endpoint has no usable result, for example because it lags.
 * Two results agree if `textOf` returns the same text. `preferred` is the index of the endpoint to
 * begin with, so that no endpoint that lies is always the one that a caller goes on with.
 *
 * Throws `EndpointsDisagree` if results differ and no group is both large enough and the largest,
 * or `RpcUnavailable` if too few endpoints returned a result.
 */
export async function askAgreed<T>(
  chain: ChainConfig,
  ask: (endpoint: Endpoint) => Promise<T>,
  textOf: (value: T) => string,
  preferred = 0,
): Promise<Agreed<T>> {
  const needed = witnessesOf(chain);
  const all = endpointsFrom(chain, preferred);
  const groups = new Map<string, { value: T; members: Endpoint[] }>();
  const errors: unknown[] = [];
  // Retries after a moment, because an endpoint that lags by a block then has it.
  const askWithRetry = (endpoint: Endpoint) =>
    ask(endpoint).catch(async () => {
      await pause(RETRY_MS);
      return ask(endpoint);
    });
  const askAll = async (some: readonly Endpoint[]) => {
    const results = await Promise.allSettled(some.map(askWithRetry));
    results.forEach((result, index) => {
      const endpoint = some[index];
      if (endpoint === undefined) return;
      if (result.status === "rejected") return errors.push(result.reason);
      const text = textOf(result.value);
      const group = groups.get(text) ?? { value: result.value, members: [] };
      group.members.push(endpoint);
      return groups.set(text, group);
    });
  };
  await askAll(all.slice(0, needed));
  if (groups.size !== 1 || errors.length > 0) await askAll(all.slice(needed));

  const bySize = [...groups.values()].toSorted((a, b) => b.members.length - a.members.length);
  const [largest, second] = bySize;
  const [endpoint] = largest?.members ?? [];
  if (largest !== undefined && endpoint !== undefined && largest.members.length >= needed) {
    if (largest.members.length > (second?.members.length ?? 0)) {
      const dissenters = bySize
        .slice(1)
        .flatMap(({ members }) => members.map(({ url }) => hostOf(url)));
      return { value: largest.value, endpoint, dissenters };
    }
  }
  if (groups.size > 1)
    throw new EndpointsDisagree(
      chain.chain,
      bySize.map(({ members }) => members),
    );
  throw new RpcUnavailable(chain.chain, errors);
}

/**
 * The highest value that enough endpoints reach: with two witnesses the second highest. A single
 * endpoint that reports a wrong height does not change it while two others respond.
 */
export async function askHighest(
  chain: ChainConfig,
  ask: (endpoint: Endpoint) => Promise<number>,
): Promise<number> {
  const results = await Promise.allSettled(endpoints(chain).map((endpoint) => ask(endpoint)));
  const reached = results
    .flatMap((result) => (result.status === "fulfilled" ? [result.value] : []))
    .toSorted((a, b) => b - a)[witnessesOf(chain) - 1];
  if (reached !== undefined) return reached;
  const errors = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  throw new RpcUnavailable(chain.chain, errors);
}
