/**
 * The sockets of one stream, which belong to RfqBook (book streams) or Feed (venue and account
 * streams).
 *
 * Everything that sends runs in one queue, so all sockets have received the same events. A new
 * subscriber first brings the others up to the number of its own snapshot or replay and then joins
 * them. No socket needs a buffer of its own.
 */
import { PLATFORM } from "../platform/platform-limits.ts";
import { AssetFilter } from "./asset-filter.ts";
import { errorFields, log, logged } from "../platform/log.ts";
import { Room } from "../platform/room.ts";
import { now, toWireTime } from "../platform/time.ts";
import type { StreamEvent } from "./event-log.ts";
import { type EventViews, renderControl, type Rendered, renderEvent } from "./render.ts";
import {
  EventsMissing,
  eventsBetween,
  type openStream,
  resyncReason,
  type Snapshot,
  snapshotFrames,
} from "./replay.ts";
import { SentPosition } from "./sent-position.ts";
import { CLOSE_SERVER_ERROR, readState, readUpgrade, socketTags, writeState } from "./socket.ts";
import { Subscription } from "./subscription.ts";
import type { Actor } from "../platform/actor.ts";
import { CHECK_MS, isOpen, type OnDisconnect, OpenSockets } from "./open-sockets.ts";
import { expr, scalar } from "../platform/sql.ts";

/**
 * Upgrades that read the database at once. All calls of an object share six connections. Pushes in
 * order take one, so this leaves two for the commits of a book while all clients reconnect.
 */
const UPGRADES_AT_ONCE = PLATFORM.connections / 2;
/** What the object that holds the sockets serves, given by the domains above. */
export type StreamContent = {
  readonly stream: string;
  readonly views: EventViews;
  readonly snapshot: Snapshot;
  /** Whether only subscribers that ask for the snapshot receive it. */
  readonly snapshotOnRequest: boolean;
  readonly onDisconnect: OnDisconnect;
  /** Whether the object needs the stream's events without sockets, too. */
  readonly hasReaders: () => boolean;
};

export class SocketHost {
  readonly #ctx: DurableObjectState;
  readonly #db: D1Database;
  readonly #content: StreamContent;
  readonly #stream: string;
  #chain: Promise<unknown> = Promise.resolve();
  #checkedAt = 0;
  readonly #subscription: Subscription;
  readonly #position: SentPosition;
  /** Sockets that are catching up. The upgrade in flight keeps the object awake meanwhile. */
  readonly #syncing = new Set<WebSocket>();
  readonly #filter: AssetFilter;
  readonly open: OpenSockets;
  readonly #upgrades = new Room(UPGRADES_AT_ONCE);

  constructor(ctx: DurableObjectState, db: D1Database, content: StreamContent) {
    const { stream, onDisconnect } = content;
    this.#ctx = ctx;
    this.#db = db;
    this.#content = content;
    this.#stream = stream;
    this.#filter = new AssetFilter(stream);
    this.open = new OpenSockets(ctx, stream, onDisconnect);
    this.#subscription = new Subscription(ctx, db, stream);
    this.#position = new SentPosition(ctx, db, stream);
  }

  /** Accepts an authenticated upgrade. Without `since` the subscriber receives a snapshot. */
  async accept(request: Request, place: string): Promise<Response> {
    await this.#upgrades.enter(1);
    try {
      return await this.#accept(request, place);
    } finally {
      this.#upgrades.leave(1);
    }
  }

  async #accept(request: Request, place: string): Promise<Response> {
    const { actor, endsAt, armed = false } = readUpgrade(request);
    const asked = new URL(request.url).searchParams;
    const assets = asked.has("assets") ? new Set(asked.get("assets")?.split(",")) : null;
    const seen = { heardAt: now(), malformedSince: 0, malformedFrames: 0 };
    const state = { actor, endsAt, place, armed, assets, ...seen };
    const sinceText = asked.get("since");
    const { snapshot: records, snapshotOnRequest } = this.#content;
    const snapshot = snapshotOnRequest && !asked.has("snapshot") ? undefined : records;
    const { 0: client, 1: server } = new WebSocketPair();
    await this.open.add(state, () => {
      this.#syncing.add(server);
      this.#ctx.acceptWebSocket(server, socketTags(actor));
      writeState(server, state);
    });
    try {
      const since = sinceText === null ? undefined : Number(sinceText);
      await this.#sync(server, actor, { since, snapshot });
    } catch (error) {
      this.open.close(server, CLOSE_SERVER_ERROR, "could not sync");
      throw error;
    } finally {
      this.#syncing.delete(server);
    }
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Sends committed events of this stream to every socket, in order, each once. */
  push(events: readonly StreamEvent[]): Promise<void> {
    return this.#inOrder(async () => {
      const sockets = this.#ctx.getWebSockets();
      if (sockets.length === 0 && !this.#content.hasReaders()) return this.#unsubscribe();
      const lastPushed = await this.#position.read();
      const fresh = events.filter((event) => event.seq > lastPushed);
      const next = fresh[0];
      const last = fresh.at(-1);
      if (next === undefined || last === undefined) return;
      if (next.seq === lastPushed + 1 && last.seq === lastPushed + fresh.length)
        this.#broadcast(fresh, this.#subscribers(sockets));
      else await this.#catchUpTo(last.seq);
    });
  }

  /** Reads the stream's last number and sends what is missing. It repairs a lost notification. */
  catchUp(): Promise<void> {
    return this.#inOrder(async () => {
      if (this.#ctx.getWebSockets().length === 0 && !this.#content.hasReaders())
        return this.#unsubscribe();
      const last = expr`SELECT last_seq FROM streams WHERE name = ${this.#stream}`;
      const seq = await scalar<number | null>(this.#db, last);
      if (seq !== null) await this.#catchUpTo(seq);
      await this.#position.acknowledge();
    });
  }

  /**
   * Registers again and sends what is missing, if that was not done lately. Never throws. A lost
   * registration would silence the stream, because nobody notifies a stream without one.
   */
  async check(at: number): Promise<void> {
    if (at - this.#checkedAt < CHECK_MS || this.#ctx.getWebSockets().length === 0) return;
    this.#checkedAt = at;
    try {
      const { lastSeq } = await this.#subscription.open(undefined);
      await this.#inOrder(() => this.#catchUpTo(lastSeq));
    } catch (error) {
      this.#checkedAt = 0;
      log("warn", "streams.check_failed", { stream: this.#stream, ...errorFields(error) });
    }
  }

  /** For a reader without a socket: the stream's events are pushed here from now on. */
  async subscribe(): Promise<void> {
    const { lastSeq } = await this.#subscription.open(undefined);
    await this.#inOrder(async () => {
      if (this.#subscribers().length > 0) return this.#catchUpTo(lastSeq);
      this.#position.startAt(Math.max(lastSeq, this.#position.last ?? 0));
    });
  }

  mayForget(): boolean {
    return this.#syncing.size === 0 && this.#subscription.mayForget();
  }

  /** After a socket closed. A stream without subscribers is not notified any more. */
  left(): Promise<void> {
    return this.#inOrder(async () => {
      if (!this.#content.hasReaders() && !this.#ctx.getWebSockets().some(isOpen))
        await this.#unsubscribe();
    });
  }

  /**
   * Brings a new subscriber up to the others. Its replay or snapshot is read outside the queue, to
   * delay nobody. What was pushed meanwhile is sent inside, and then it receives what all do.
   */
  async #sync(
    socket: WebSocket,
    actor: Actor,
    { since, snapshot }: { since: number | undefined; snapshot: Snapshot | undefined },
  ): Promise<void> {
    if (since !== undefined && (await this.#joinFromMemory(socket, actor, since))) return;
    let head = await this.#subscription.open(
      since === undefined ? snapshot && { snapshot } : { since },
    );
    this.#hello(socket, actor, head.lastSeq);
    const reason =
      since === undefined
        ? undefined
        : (resyncReason(since, head) ?? (await this.#replay(socket, since, head)));
    if (since === undefined || reason !== undefined) {
      if (reason !== undefined) {
        socket.send(renderControl("resync", this.#stream, head.lastSeq, { reason }));
        if (snapshot !== undefined) head = await this.#subscription.open({ snapshot });
      }
      if (snapshot !== undefined) {
        const wanted = (record: object) => this.#filter.wantsRecord(socket, record);
        for (const frame of snapshotFrames(snapshot, head.rows, wanted))
          socket.send(renderControl("snapshot", this.#stream, head.lastSeq, frame));
      }
    }
    await this.#inOrder(() => this.#join(socket, head.lastSeq));
  }

  /** Sends the events after `since`. Returns the reason for a resync if some are missing. */
  async #replay(
    socket: WebSocket,
    since: number,
    { lastSeq: upTo, rows }: Awaited<ReturnType<typeof openStream>>,
  ): Promise<string | undefined> {
    // Safe cast: `openStream` was asked for the events after `since`.
    const page = rows[0] as readonly StreamEvent[];
    try {
      await this.#sendEvents(socket, { after: since, upTo, first: page });
      return undefined;
    } catch (error) {
      if (error instanceof EventsMissing) return "events after since are missing";
      throw error;
    }
  }

  /** Runs inside the queue. Afterwards all sockets have received the same events. */
  async #join(socket: WebSocket, stands: number): Promise<void> {
    if (this.#subscribers().length === 0) {
      this.#position.startAt(Math.max(stands, this.#position.last ?? 0));
    } else if ((await this.#position.read()) < stands) {
      await this.#catchUpTo(stands);
    }
    const upTo = this.#position.last ?? stands;
    await this.#sendEvents(socket, { after: stands, upTo });
    this.#joined(socket, upTo);
  }

  /** Sends the socket its events of a range. */
  async #sendEvents(socket: WebSocket, range: Parameters<typeof eventsBetween>[2]): Promise<void> {
    for await (const page of eventsBetween(this.#db, this.#stream, range)) {
      for (const event of page) this.#sendEvent(socket, renderEvent(this.#content.views, event));
    }
  }

  #sendEvent(socket: WebSocket, event: Rendered): void {
    const message = this.#filter.messageTo(socket, event);
    if (message !== undefined) socket.send(message);
  }

  /** The socket has received its events up to `seq`, and from now on what all receive. */
  #joined(socket: WebSocket, seq: number): void {
    const skipped = this.#filter.skippedTo(socket, seq);
    if (skipped !== undefined) socket.send(skipped);
    this.#syncing.delete(socket);
  }

  /** False when memory does not reach back to `since`, or when only D1 can know that number. */
  #joinFromMemory(socket: WebSocket, actor: Actor, since: number): Promise<boolean> {
    return this.#inOrder(async () => {
      const { last } = this.#position;
      const recent = this.#subscription.active ? this.#position.recentAfter(since) : undefined;
      if (last === undefined || recent === undefined) return false;
      this.#hello(socket, actor, last);
      for (const event of recent) this.#sendEvent(socket, event);
      this.#joined(socket, last);
      return true;
    });
  }

  async #unsubscribe(): Promise<void> {
    this.#position.forgetRecent();
    await this.#subscription.close();
  }

  #hello(socket: WebSocket, actor: Actor, seq: number): void {
    socket.send(
      renderControl("hello", this.#stream, seq, {
        scopes: actor.scopes,
        cancel_on_disconnect: readState(socket).armed,
        server_time: toWireTime(Date.now()),
      }),
    );
  }

  /** The sockets that have received everything up to the position, without `#syncing`. */
  #subscribers(sockets = this.#ctx.getWebSockets()): WebSocket[] {
    return this.#syncing.size === 0
      ? sockets
      : sockets.filter((socket) => !this.#syncing.has(socket));
  }

  async #catchUpTo(lastSeq: number): Promise<void> {
    const stands = await this.#position.read();
    try {
      const missed = { after: stands, upTo: lastSeq };
      for await (const page of eventsBetween(this.#db, this.#stream, missed))
        this.#broadcast(page, this.#subscribers());
    } catch (error) {
      if (!(error instanceof EventsMissing)) throw error;
      log("error", "streams.events_missing", { stream: this.#stream, ...errorFields(error) });
      // Sending later events would hide the gap. A reconnect with `since` is answered by `resync`.
      for (const socket of this.#subscribers())
        this.open.close(socket, CLOSE_SERVER_ERROR, "events are missing; reconnect");
      this.#position.startAt(lastSeq);
    }
  }

  #broadcast(events: readonly StreamEvent[], sockets: readonly WebSocket[]): void {
    for (const event of events) {
      const rendered = renderEvent(this.#content.views, event);
      for (const socket of sockets) {
        const message = this.#filter.messageTo(socket, rendered);
        if (message !== undefined) this.open.send(socket, message);
      }
      this.#position.sent(rendered);
    }
    this.#position.acknowledgeSoon();
  }

  #inOrder<Result>(task: () => Promise<Result>): Promise<Result> {
    const done = this.#chain.then(task);
    this.#chain = done.catch(logged("error", "streams.push_failed", { stream: this.#stream }));
    return done;
  }
}
