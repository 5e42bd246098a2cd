/**
 * Reads that money rests on.
 *
 * With two or more endpoints configured, at least two must say the same. One endpoint that lies,
 * lags or is silent then neither moves money nor stops the others, as long as two honest ones are
 * left. With one endpoint its word has to do.
 */
import { type ChainConfig, witnessesOf } from "../platform/config.ts";
import { type Endpoint, endpoints, hostOf, pause, RpcUnavailable } from "./rpc.ts";

/**
 * Endpoints gave different answers to one question, and no two agreed. The message names their
 * hosts.
 */
export class NodesDisagree extends Error {
  constructor(chain: string, camps: readonly (readonly Endpoint[])[]) {
    const sides = camps.map((camp) => camp.map(({ url }) => hostOf(url)).join(" and "));
    super(`the endpoints of ${chain} disagree: ${sides.join(" against ")}`);
    this.name = "NodesDisagree";
  }
}

const RETRY_MS = 400;

export type Agreed<T> = {
  readonly value: T;
  /** One of the endpoints that agreed. */
  readonly endpoint: Endpoint;
  /** Hosts that said something else, while enough others agreed. */
  readonly dissenters: readonly string[];
};

/**
 * Asks the endpoints until enough agree: `witnessesOf` of them first, the others only when those
 * differ or fail. `ask` throws when its endpoint has no usable answer, for instance because it
 * lags. Two values agree when their texts are equal.
 *
 * Throws `NodesDisagree` when enough answered but no camp is large enough or alone the largest,
 * `RpcUnavailable` when too few answered.
 */
export async function askAgreed<T>(
  chain: ChainConfig,
  ask: (endpoint: Endpoint) => Promise<T>,
  textOf: (value: T) => string,
): Promise<Agreed<T>> {
  const needed = witnessesOf(chain);
  const all = endpoints(chain);
  const camps = new Map<string, { value: T; members: Endpoint[] }>();
  const errors: unknown[] = [];
  /** Once more after a moment: an endpoint that lags by a block has it then. */
  const askTwice = (endpoint: Endpoint) =>
    ask(endpoint).catch(async () => {
      await pause(RETRY_MS);
      return ask(endpoint);
    });
  const hear = async (some: readonly Endpoint[]) => {
    const answers = await Promise.allSettled(some.map(askTwice));
    answers.forEach((answer, index) => {
      const endpoint = some[index];
      if (endpoint === undefined) return;
      if (answer.status === "rejected") return errors.push(answer.reason);
      const text = textOf(answer.value);
      const camp = camps.get(text) ?? { value: answer.value, members: [] };
      camp.members.push(endpoint);
      return camps.set(text, camp);
    });
  };
  await hear(all.slice(0, needed));
  if (camps.size !== 1 || errors.length > 0) await hear(all.slice(needed));

  const bySize = [...camps.values()].toSorted((a, b) => b.members.length - a.members.length);
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
  if (camps.size > 1)
    throw new NodesDisagree(
      chain.chain,
      bySize.map(({ members }) => members),
    );
  throw new RpcUnavailable(chain.chain, errors);
}

/**
 * The highest value that enough endpoints reach: with two witnesses the second highest of all
 * answers. One endpoint that names an absurd height, or a low one, does not change it while two
 * others answer.
 */
export async function askReached(
  chain: ChainConfig,
  ask: (endpoint: Endpoint) => Promise<number>,
): Promise<number> {
  const answers = await Promise.allSettled(endpoints(chain).map((endpoint) => ask(endpoint)));
  const reached = answers
    .flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []))
    .toSorted((a, b) => b - a)[witnessesOf(chain) - 1];
  if (reached !== undefined) return reached;
  const errors = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : []));
  throw new RpcUnavailable(chain.chain, errors);
}
