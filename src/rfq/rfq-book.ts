/** One object per (venue, asset). It decides nothing, so a stale or second one does no harm. */
import { config, type Config } from "../platform/config.ts";
import { NOW } from "../platform/commit.ts";
import { counts } from "../platform/counts.ts";
import { failpointOf } from "../platform/failpoint.ts";
import { unavailable } from "../platform/problem.ts";
import { first } from "../platform/sql.ts";
import { now } from "../platform/time.ts";
import { bookStream, type StreamEvent } from "../streams/event-log.ts";
import { InFlight } from "../platform/in-flight.ts";
import { SocketCommands } from "./socket-commands.ts";
import { notifyStreams } from "../streams/notify.ts";
import { eventViews } from "../streams/render.ts";
import { nameOf, RETRY_MS, StreamObject } from "../streams/stream-object.ts";
import { acceptQuote } from "./accept-quote.ts";
import { onDisconnect } from "./cancel-on-disconnect.ts";
import type { GroupDone } from "./book-group.ts";
import { cancelQuote } from "./cancel-quote.ts";
import { cancelRequest } from "./cancel-request.ts";
import {
  type Result,
  type Command,
  type PlaceQuote,
  refused,
  reject,
  type SetAcceptPrice,
} from "./command.ts";
import { RFQ_EVENTS } from "./rfq-events.ts";
import { nextDue } from "./expire.ts";
import { openRequest } from "./open-request.ts";
import { placeQuote } from "./place-quote.ts";
import { tooManyInFlight } from "./rejections.ts";
import { readTerms, type RequestTerms, termsOf } from "./request-terms.ts";
import { GroupCommitter } from "./group-committer.ts";
import { openRequestsSnapshot } from "./snapshot-rfq.ts";
import type { BookOperation } from "./book-operation.ts";
import { setAcceptPrice } from "./standing-accept.ts";
import { alertClockAhead } from "./watch-clock.ts";

/** Requests whose terms are cached. Terms never change, so this only bounds memory. */
const MAX_KNOWN_REQUESTS = 20_000;

const VIEWS = eventViews(RFQ_EVENTS);

const NO_REQUEST = reject("request_unknown", "There is no such request.");
const UNKNOWN_COMMAND = refused(unavailable("none"));

export class RfqBook extends StreamObject {
  readonly #asset: string;
  readonly #venue: string | undefined;
  readonly #settings: Config;
  readonly #committer: GroupCommitter;
  readonly #commands: SocketCommands;
  readonly #inFlight: InFlight<string>;
  readonly #requests = new Map<string, RequestTerms>();

  constructor(ctx: DurableObjectState, env: Env) {
    const asset = nameOf(ctx);
    const stream = bookStream(asset);
    super(ctx, env, {
      stream,
      views: VIEWS,
      snapshot: openRequestsSnapshot(stream),
      snapshotOnRequest: false,
      hasReaders: () => false,
      onDisconnect: onDisconnect(env),
    });
    this.#asset = asset;
    this.#venue = asset.includes(":") ? asset.split(":")[0] : undefined;
    this.#settings = config(env);
    this.#commands = new SocketCommands(env, {
      asset,
      submit: (command) => this.submit(command),
      submitQuotes: (commands) => this.submitQuotes(commands),
    });
    this.#inFlight = new InFlight(this.#settings.RFQ_COMMANDS_IN_FLIGHT_PER_USER);
    this.#committer = new GroupCommitter(env.DB, {
      asset: this.#asset,
      venue: this.#venue,
      waitMs: this.#settings.RFQ_GROUP_WAIT_MS,
      maxWaitMs: this.#settings.RFQ_COMMAND_MAX_WAIT_MS,
      maxOperations: this.#settings.RFQ_GROUP_MAX_OPERATIONS,
      macKeys: this.#settings,
      onCommitted: (done) => this.#committed(done),
      onFailed: () => this.ctx.waitUntil(this.#lookAgain()),
      onClockAhead: (aheadMs) => this.ctx.waitUntil(alertClockAhead(env.DB, aheadMs)),
      push: async (events) => this.#push(events),
    });
  }

  async submit(command: Command): Promise<Result> {
    const result = await this.#inFlight.run(command.actor.userId, () => this.#commit(command));
    return this.#counted(command, result ?? this.#tooManyInFlight());
  }

  /** The quotes of one call of a user, in one commit group. The call counts as one command. */
  async submitQuotes(commands: readonly PlaceQuote[]): Promise<readonly Result[]> {
    const results = await this.#inFlight.run(commands[0]?.actor.userId ?? "", () =>
      this.#commitQuotes(commands),
    );
    return commands.map((command, index) =>
      this.#counted(command, results?.[index] ?? this.#tooManyInFlight()),
    );
  }

  #counted({ op, receivedAt }: Command, result: Result): Result {
    const outcome = result.ok ? "ok" : result.problem.code;
    const verb = result === UNKNOWN_COMMAND ? "unknown" : op;
    counts.count("rfq_commands_total", { verb, outcome, venue: this.#venue });
    counts.observe("rfq_command_seconds", verb, now() - receivedAt);
    counts.send(this.env, (work) => this.ctx.waitUntil(work));
    return result;
  }

  #tooManyInFlight(): Result {
    const limit = this.#settings.RFQ_COMMANDS_IN_FLIGHT_PER_USER;
    return refused(tooManyInFlight(limit, "this book"));
  }

  /** Called by cron when something is overdue, because an alarm may have been lost. */
  async expireDue(): Promise<void> {
    this.#committer.quotes.forget();
    await this.#committer.expire();
  }

  protected override async wake(at: number): Promise<void> {
    this.ctx.waitUntil(this.sockets.check(at));
    // Armed sockets wake the object every 30 s, mostly when nothing is due.
    if (this.sockets.open.armed().length === 0 || (await this.#isDue()))
      await this.#committer.expire();
    // Anyone can name an asset that nobody has, and each has a book.
    await this.deleteStorage();
  }

  /** Whether something is due. If not, arms the alarm for when it will be. */
  async #isDue(): Promise<boolean> {
    const quote = this.#committer.quotes.next();
    const row = await first<{ due: number | null; at: number }>(
      this.env.DB,
      nextDue(this.#asset, NOW, quote === undefined ? "all" : "requests"),
    );
    const due = earlier(row?.due ?? null, quote ?? null);
    if (due !== null && due <= (row?.at ?? 0)) return true;
    await this.wakeAt(due);
    return false;
  }

  protected override receive(socket: WebSocket, frame: string | ArrayBuffer): Promise<void> {
    return this.#commands.receive(socket, frame);
  }

  async #commit(command: Command): Promise<Result> {
    if (command.op === "place_quote") {
      const [placed] = await this.#commitQuotes([command]);
      return placed ?? UNKNOWN_COMMAND;
    }
    if (command.op === "set_accept_price") {
      const request = (await this.#termsOf([command.requestId])).get(command.requestId);
      if (request === undefined) return NO_REQUEST;
      return this.#committer.submit(setAcceptPrice(command, request, this.#settings));
    }
    const operation = this.#operation(command);
    if (operation === undefined) return UNKNOWN_COMMAND;
    const result = await this.#committer.submit(operation);
    // Without this the first quote on each request would wait for a read of its terms.
    if (command.op === "open_request" && result.ok && !result.replayed)
      this.#remember(command.requestId, termsOf(command));
    return result;
  }

  async #commitQuotes(commands: readonly PlaceQuote[]): Promise<Result[]> {
    const requests = await this.#termsOf(commands.map(({ requestId }) => requestId));
    const placed = commands.map(async (command) => {
      const request = requests.get(command.requestId);
      if (request === undefined) return NO_REQUEST;
      return this.#committer.submit(placeQuote(command, request, this.#settings));
    });
    return Promise.all(placed);
  }

  #operation(command: Exclude<Command, PlaceQuote | SetAcceptPrice>): BookOperation | undefined {
    switch (command.op) {
      case "open_request":
        return openRequest(command, this.#settings);
      case "cancel_quote":
        return cancelQuote(command);
      case "cancel_request":
        return cancelRequest(command);
      case "accept":
      case "accept_price":
        return acceptQuote(command, this.#settings);
      // For some minutes after a deployment, a new Worker calls objects that still run older code.
      default:
        command satisfies never;
        return undefined;
    }
  }

  /** The terms of requests by id. Requests that this book does not have are omitted. */
  async #termsOf(requestIds: readonly string[]): Promise<ReadonlyMap<string, RequestTerms>> {
    const found = new Map<string, RequestTerms>();
    const unread = new Set<string>();
    for (const id of requestIds) {
      const known = this.#requests.get(id);
      if (known === undefined) unread.add(id);
      else found.set(id, known);
    }
    if (unread.size === 0) return found;
    for (const { requestId, ...terms } of await readTerms(this.env.DB, [...unread])) {
      if (terms.asset !== this.#asset) continue;
      this.#remember(requestId, terms);
      found.set(requestId, terms);
    }
    return found;
  }

  #remember(requestId: string, terms: RequestTerms): void {
    if (this.#requests.size >= MAX_KNOWN_REQUESTS) this.#requests.clear();
    this.#requests.set(requestId, terms);
  }

  /** Runs before the group's results are delivered. Pushes are started here but not awaited. */
  async #committed(done: GroupDone): Promise<void> {
    if (done.effects.matches.size > 0) await failpointOf(this.env)?.("match_committed");
    this.#push(done.events);
    this.ctx.waitUntil(this.wakeAt(earlier(done.nextDue, this.#committer.quotes.next() ?? null)));
    this.ctx.waitUntil(this.#committer.quotes.complete());
  }

  #push(events: readonly StreamEvent[]): void {
    const own = bookStream(this.#asset);
    const { mine = [], others = [] } = Object.groupBy(events, ({ stream }) =>
      stream === own ? "mine" : "others",
    );
    if (mine.length > 0) this.ctx.waitUntil(this.sockets.push(mine));
    if (others.length > 0) this.ctx.waitUntil(notifyStreams(this.env, others));
  }

  /** After a failed batch, expiries and events may be pending for which there is no alarm. */
  async #lookAgain(): Promise<void> {
    this.#committer.quotes.forget();
    await this.wakeAt(now() + RETRY_MS);
    await this.sockets.catchUp();
  }
}

/** The earlier of two instants, of which each may be none. */
function earlier(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}
