/** The open requests of a venue as a live map, which keeps them quoted. */
import { deferred } from "./deferred.ts";
import { Live } from "./live.ts";
import { type LiveJoin, LiveSource, type LiveUse, type OnDisconnect } from "./live-source.ts";
import { NoAnswer, Problem } from "./problem.ts";
import type { QuoteTerms } from "./rfq.ts";
import type { Stream } from "./stream.ts";
import type { StreamMessage } from "./stream-messages.ts";
import { sleep } from "./sleep.ts";
import type { CallOptions } from "./transport.ts";
import type { Quote, QuoteRequest, Side, Venue } from "./types.ts";
import { type From, type OpenRequest, VenueRequests } from "./venue-requests.ts";

/** Commands of one socket that the service works on at once (`limits` of GET /config). */
const AT_ONCE = 8;
const TICK_MS = 100;

/** Options of a live map of requests. */
export type RequestsSettings = {
  venue_id: Venue;
  /** Only the requests of these assets, at most 200. */
  assets?: string[];
  /** Put on each quote. Only quotes with it count as own. Default: all quotes of the account. */
  label?: string;
  /** As for a stream: cancel the open quotes of the key when the account stream ends. */
  cancel_on_disconnect?: boolean;
  /** Called with each message of the account stream, for example `match.created`. */
  onMessage?: (message: StreamMessage) => void;
  /** Called each time one of the two connections is lost or cannot be made. */
  onDisconnect?: OnDisconnect;
};

type Open = Record<From, (onDisconnect: OnDisconnect) => Stream>;

/** Both streams as one. The map has changed once both have a snapshot. */
function joinBoth(
  requests: VenueRequests,
  open: Open,
  onMessage: RequestsSettings["onMessage"],
): LiveJoin<OpenRequest> {
  const viewOf = (from: From) =>
    new LiveSource(
      (onDisconnect) =>
        open[from]((lost) => {
          requests.lost(from);
          onDisconnect(lost);
        }),
      () => ({
        apply: (message) => {
          const applied = requests.apply(from, message);
          if (from === "account") onMessage?.(message);
          return applied;
        },
      }),
    ).view(() => requests.open);
  const views = [viewOf("account"), viewOf("market")];
  return (use: LiveUse) => {
    const changed = () => requests.hasSnapshot && use.changed();
    const joined = views.map((join) => join({ ...use, changed }));
    return {
      values: () => requests.open,
      leave: () => joined.forEach(({ leave }) => leave()),
    };
  };
}

/**
 * The open requests of a venue by id, with your own open quotes on them. Created by
 * `client.requests`.
 *
 * @example
 * ```ts
 * const requests = client.requests({ venue_id: "venue_one" });
 * await requests.ready();
 * for (const { request, quotes } of requests)
 *   console.log(request.side, request.asset_id, "has", quotes.length, "quotes of yours");
 * requests.close();
 * ```
 */
export class LiveRequests extends Live<string, OpenRequest> {
  readonly #requests: VenueRequests;
  readonly #label: string | undefined;
  readonly #commands: { stream: Stream | null };

  constructor(settings: Omit<RequestsSettings, "venue_id" | "assets">, open: Open) {
    const { label, onMessage, onDisconnect } = settings;
    const requests = new VenueRequests(label);
    const commands: { stream: Stream | null } = { stream: null };
    const market = (lost: OnDisconnect) => (commands.stream = open.market(lost));
    super(joinBoth(requests, { ...open, market }, onMessage), (id) => id, onDisconnect);
    this.#requests = requests;
    this.#label = label;
    this.#commands = commands;
  }

  /**
   * Places a quote over the socket of the venue, as `Stream.quote`. The map shows it at once. To
   * change the price of a quote, name it in `replaces`.
   *
   * @example
   * ```ts
   * const requests = client.requests({ venue_id: "venue_one" });
   * await requests.ready();
   * for (const { request, quotes } of requests)
   *   for (const { quote_id: replaces, side } of quotes)
   *     await requests.quote({ request_id: request.request_id, side, price: 640_000, replaces });
   * ```
   */
  async quote(
    terms: QuoteTerms & { idempotency_key?: string },
    options: CallOptions & { maxAgeMs?: number } = {},
  ): Promise<Quote> {
    const { stream } = this.#commands;
    if (stream === null) throw new Error("The live map is not connected. Call `ready` first.");
    const label = this.#label === undefined ? {} : { label: this.#label };
    return this.#requests.track(terms.request_id, stream.quote({ ...label, ...terms }, options));
  }

  /**
   * Calls `place` for each side of each open request that has no open quote of yours, up to eight
   * at once: when the request opens, and again when your quote on it has expired, was cancelled or
   * was lost with a connection. If `place` places no quote, or throws `Problem` or `NoAnswer`, it
   * is called again after a second or later. Resolves when the map is closed and the last call of
   * `place` has ended. Throws what ends the map, and other errors of `place`.
   *
   * @example
   * ```ts
   * const requests = client.requests({ venue_id: "venue_one", label: "bot-1" });
   * await requests.keepQuoted(async ({ request_id, asset_id }, side) => {
   *   if (asset_id === "0x1") await requests.quote({ request_id, side, price: 650_000 });
   * });
   * ```
   */
  async keepQuoted(place: (request: QuoteRequest, side: Side) => Promise<unknown>): Promise<void> {
    await this.ready();
    const running = new Set<Promise<void>>();
    const failed = deferred<never>();
    failed.promise.catch(() => {});
    const ended = this.ended().then(() => true);
    ended.catch(() => {});
    let wake = deferred<void>();
    const stopListening = this.onChange(() => wake.resolve());
    try {
      for (let isOver = false; !isOver;) {
        wake = deferred<void>();
        for (const unquoted of this.#requests.take(performance.now(), AT_ONCE - running.size)) {
          const run = (async () => place(unquoted.request, unquoted.side))()
            .catch((error: unknown) => {
              if (!(error instanceof Problem || error instanceof NoAnswer)) failed.reject(error);
            })
            .then(() => {
              this.#requests.settled(unquoted, performance.now());
              running.delete(run);
              wake.resolve();
            });
          running.add(run);
        }
        const pause = Promise.race([wake.promise, sleep(TICK_MS)]).then(() => false);
        isOver = await Promise.race([pause, ended, failed.promise]);
      }
      await Promise.all(running);
    } finally {
      stopListening();
    }
  }
}
