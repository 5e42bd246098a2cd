/**
 * Counts for GET /metrics. An isolate adds up what its Worker and objects do, and sends it to the
 * object `Metrics` with work that it does anyway, because a timer would keep an object awake.
 *
 * What an isolate has not sent when it ends is lost: the end of a burst, at most ten seconds of
 * it. A count whose response is lost is sent again and may count twice. Nothing is decided by it.
 */
import { config } from "./config.ts";
import { near } from "./near.ts";
import { now } from "./time.ts";

export const COUNTERS = {
  rfq_requests_total: "HTTP requests by operation and problem code",
  rfq_commands_total: "Commands of books, of REST routes and sockets, by problem code",
  rfq_commit_groups_total: "Commit groups of books",
  rfq_rounds_total: "Rounds of watchers, payers and the sealer",
  rfq_rpc_calls_total: "Calls to RPC endpoints by method",
  rfq_cron_tasks_total: "Tasks of cron",
} as const;
export const DURATIONS = {
  rfq_request_seconds: "Duration of HTTP requests by operation",
  rfq_command_seconds: "From the receipt of a command to its result",
} as const;

/** Values are names of the code or the settings, never a caller's, a book's or a user's. */
type Labels = { readonly [Name in "verb" | "outcome" | "venue" | "chain"]?: string | undefined };

/** Upper bounds of the buckets in milliseconds. */
const BUCKETS_MS = [10, 30, 100, 300, 1_000, 3_000, 10_000] as const;
const SEND_EVERY_MS = 10_000;
/** Series of an isolate between two sendings. Bounds memory if `Metrics` is away. */
const MAX_SERIES = 2_000;

type Durations = { sumMs: number; readonly buckets: number[] };

export const METRICS_NAME = "metrics";

export class Counts {
  #sums = new Map<string, number>();
  #durations = new Map<string, Durations>();
  #sentAt = Number.NEGATIVE_INFINITY;

  count(name: keyof typeof COUNTERS, labels: Labels): void {
    this.#add(`${name}{${labelsText(labels)}}`, 1);
  }

  observe(name: keyof typeof DURATIONS, verb: string, ms: number): void {
    const key = `${name} ${verb}`;
    let known = this.#durations.get(key);
    if (known === undefined) {
      known = { sumMs: 0, buckets: [...BUCKETS_MS.map(() => 0), 0] };
      this.#durations.set(key, known);
    }
    known.sumMs += ms;
    const bucket = BUCKETS_MS.findIndex((bound) => ms <= bound);
    const index = bucket === -1 ? BUCKETS_MS.length : bucket;
    known.buckets[index] = (known.buckets[index] ?? 0) + 1;
  }

  /** Sends what was added, every ten seconds. The caller's response does not wait for it. */
  send(env: Env, waitUntil: (work: Promise<unknown>) => void): void {
    const passed = now() - this.#sentAt;
    // A clock that was put back must not stop it.
    if (this.#sums.size + this.#durations.size === 0 || (passed >= 0 && passed < SEND_EVERY_MS))
      return;
    this.#sentAt = now();
    for (const [key, durations] of this.#durations) this.#spread(key, durations);
    const sent = this.#sums;
    this.#sums = new Map();
    this.#durations = new Map();
    if (config(env).METRICS_TOKEN === "") return;
    const putBack = () => {
      for (const [series, by] of sent) this.#add(series, by);
    };
    waitUntil(
      near(env, env.METRICS, METRICS_NAME)
        .add([...sent])
        .catch(putBack),
    );
  }

  /** The series of a histogram, whose buckets include those below. */
  #spread(key: string, { sumMs, buckets }: Durations): void {
    const [name = "", verb = ""] = key.split(" ");
    let sum = 0;
    for (const [index, inBucket] of buckets.entries()) {
      sum += inBucket;
      const bound = BUCKETS_MS[index];
      const le = bound === undefined ? "+Inf" : String(bound / 1_000);
      this.#add(`${name}_bucket{${labelsText({ verb, le })}}`, sum);
    }
    this.#add(`${name}_sum{${labelsText({ verb })}}`, sumMs / 1_000);
    this.#add(`${name}_count{${labelsText({ verb })}}`, sum);
  }

  #add(series: string, by: number): void {
    const before = this.#sums.get(series);
    if (before === undefined && this.#sums.size >= MAX_SERIES) return;
    this.#sums.set(series, (before ?? 0) + by);
  }
}

/** Counts of this isolate, whose Worker and objects share them. */
export const counts = new Counts();

/** Labels as Prometheus writes them. */
export function labelsText(labels: Readonly<Record<string, string | undefined>>): string {
  let text = "";
  for (const name in labels)
    if (labels[name] !== undefined)
      text += `${text === "" ? "" : ","}${name}=${JSON.stringify(labels[name])}`;
  return text;
}
