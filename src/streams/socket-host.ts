/**
 * The sockets of one stream, held by RfqBook (book streams) or Feed (venue and account streams).
 *
 * Everything that sends runs in one chain, so all sockets always stand at the same number: a new reader first brings the
 * others up to the number of its own snapshot or replay, then joins them. No buffer per socket is needed.
 */
import type { Actor } from "../auth/actor.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, first, sql } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import type { LoggedEvent } from "./event-log.ts";
import type { SocketsOf } from "./hints.ts";
import { renderControl, renderEvent } from "./render.ts";
import { closeStream, eventsBetween, openStream, resyncReason, snapshotFrames } from "./replay.ts";
import { ACTOR_HEADER, CLOSE_SERVER_ERROR, CLOSE_UNAUTHORIZED, closeSocket, readState, type SocketState, socketTags, tagOf } from "./socket.ts";

/** Messages kept in memory, so that a thousand readers who reconnect at once do not queue in D1 ahead of money. */
const MAX_RECENT = 1_000;

export class SocketHost {
  readonly #ctx: DurableObjectState;
  readonly #db: D1Database;
  readonly #stream: string;
  #chain: Promise<void> = Promise.resolve();
  #lastPushed: number | undefined;
  #acknowledging = false;
  /** The last messages, up to `#lastPushed` without a gap, while this life of the object is known to be a reader. */
  #recent: { readonly seq: number; readonly message: string }[] = [];
  #registered = false;

  constructor(ctx: DurableObjectState, db: D1Database, stream: string) {
    this.#ctx = ctx;
    this.#db = db;
    this.#stream = stream;
  }

  /** Answers an upgrade that the Worker has authenticated. `since` absent: a snapshot. */
  async accept(request: Request, socketsPerUser: number): Promise<Response> {
    const { actor, endsAt } = JSON.parse(request.headers.get(ACTOR_HEADER) ?? "null") as { actor: Actor; endsAt: number | null };
    const sinceText = new URL(request.url).searchParams.get("since");
    if (this.#ctx.getWebSockets(tagOf({ userId: actor.userId })).length >= socketsPerUser) return new Response(null, { status: 429 });
    const { 0: client, 1: server } = new WebSocketPair();
    const state: SocketState = { actor, endsAt, badSince: 0, badFrames: 0 };
    // The sync runs before the socket is accepted as one of the stream's, so that no push can overtake it.
    await this.#inChain(() => this.#sync(server, state, sinceText === null ? undefined : Number(sinceText)));
    return new Response(null, { status: 101, webSocket: client });
  }

  /** Sends committed events of this stream to every socket, in order, each once. */
  push(events: readonly LoggedEvent[]): Promise<void> {
    return this.#inChain(async () => {
      if (this.#ctx.getWebSockets().length === 0) return this.#unregister();
      const lastPushed = await this.#position();
      const fresh = events.filter((event) => event.seq > lastPushed);
      const next = fresh[0];
      const last = fresh.at(-1);
      if (next === undefined || last === undefined) return;
      if (next.seq === lastPushed + 1 && last.seq === lastPushed + fresh.length) this.#broadcast(fresh);
      else await this.#catchUpTo(last.seq);
    });
  }

  /** Reads the stream's last number and sends what is missing: the answer to a lost hint. */
  catchUp(): Promise<void> {
    return this.#inChain(async () => {
      if (this.#ctx.getWebSockets().length === 0) return this.#unregister();
      const row = await first<{ last_seq: number }>(this.#db, sql`SELECT last_seq FROM streams WHERE name = ${this.#stream}`);
      if (row !== undefined) await this.#catchUpTo(row.last_seq);
      await this.#acknowledge();
    });
  }

  closeSockets(whose: SocketsOf): void {
    const below = "belowEpoch" in whose ? whose.belowEpoch : undefined;
    for (const socket of this.#ctx.getWebSockets(tagOf(whose))) {
      const { credential } = readState(socket).actor;
      if (below !== undefined && credential.kind === "session" && credential.epoch >= below) continue;
      closeSocket(socket, CLOSE_UNAUTHORIZED, "credential no longer valid");
    }
  }

  /** Closes the sockets whose credential has ended; the next such instant, or null. */
  closeEnded(now: number): number | null {
    let next: number | null = null;
    for (const socket of this.#ctx.getWebSockets()) {
      const { endsAt } = readState(socket);
      if (endsAt === null) continue;
      if (endsAt <= now) closeSocket(socket, CLOSE_UNAUTHORIZED, "credential expired");
      else next = next === null ? endsAt : Math.min(next, endsAt);
    }
    return next;
  }

  /** After a socket closed: a stream without readers wakes nobody. */
  left(): Promise<void> {
    return this.#inChain(async () => {
      if (this.#ctx.getWebSockets().every((socket) => socket.readyState !== WebSocket.READY_STATE_OPEN)) await this.#unregister();
    });
  }

  async #sync(socket: WebSocket, state: SocketState, since: number | undefined): Promise<void> {
    const recent = since === undefined ? undefined : this.#recentAfter(since);
    if (recent !== undefined) {
      this.#join(socket, state, this.#lastPushed ?? 0);
      for (const { message } of recent) socket.send(message);
      return;
    }
    const isPublic = !this.#stream.startsWith("account:");
    const head = await openStream(this.#db, this.#stream, isPublic);
    if (this.#ctx.getWebSockets().length > 0) await this.#catchUpTo(head.lastSeq);
    else this.#recent = [];
    this.#moveTo(head.lastSeq);
    this.#registered = true;
    this.#join(socket, state, head.lastSeq);
    const control = (type: "snapshot" | "resync", data: unknown) => socket.send(renderControl(type, this.#stream, head.lastSeq, data));
    const reason = since === undefined ? undefined : resyncReason(since, head);
    if (since !== undefined && reason === undefined) {
      for await (const page of eventsBetween(this.#db, this.#stream, since, head.lastSeq)) {
        for (const event of page) socket.send(renderEvent(event));
      }
      return;
    }
    if (reason !== undefined) control("resync", { reason });
    if (isPublic) for (const frame of snapshotFrames(head.requests)) control("snapshot", frame);
  }

  async #unregister(): Promise<void> {
    this.#registered = false;
    this.#recent = [];
    await closeStream(this.#db, this.#stream);
  }

  #join(socket: WebSocket, state: SocketState, seq: number): void {
    this.#ctx.acceptWebSocket(socket, socketTags(state.actor));
    socket.serializeAttachment(state);
    socket.send(renderControl("hello", this.#stream, seq, { scopes: state.actor.scopes, server_time: toWireTime(Date.now()) }));
  }

  /** What a reader missed, if memory has all of it; a number that it cannot know leads to D1, which can. */
  #recentAfter(since: number): readonly { readonly message: string }[] | undefined {
    const last = this.#lastPushed;
    if (!this.#registered || last === undefined || since > last) return undefined;
    const first = this.#recent[0]?.seq ?? last + 1;
    return since + 1 < first ? undefined : this.#recent.filter(({ seq }) => seq > since);
  }

  async #catchUpTo(lastSeq: number): Promise<void> {
    for await (const page of eventsBetween(this.#db, this.#stream, await this.#position(), lastSeq)) this.#broadcast(page);
  }

  #broadcast(events: readonly LoggedEvent[]): void {
    const sockets = this.#ctx.getWebSockets();
    for (const event of events) {
      const message = renderEvent(event);
      for (const socket of sockets) send(socket, message);
      this.#recent.push({ seq: event.seq, message });
      this.#moveTo(event.seq);
    }
    if (this.#recent.length > 2 * MAX_RECENT) this.#recent = this.#recent.slice(-MAX_RECENT);
    if (!this.#acknowledging) {
      this.#acknowledging = true;
      this.#ctx.waitUntil(this.#acknowledge());
    }
  }

  /** The pong carries the position and is kept by the runtime while the object sleeps: it is also our memory of it. */
  #moveTo(seq: number): void {
    this.#lastPushed = seq;
    this.#ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", JSON.stringify({ type: "pong", seq })));
  }

  async #position(): Promise<number> {
    if (this.#lastPushed === undefined) {
      const pong = this.#ctx.getWebSocketAutoResponse()?.response;
      const row = pong === undefined ? await first<{ seq: number }>(this.#db, sql`SELECT pushed_seq AS seq FROM streams WHERE name = ${this.#stream}`) : undefined;
      this.#lastPushed = pong === undefined ? (row?.seq ?? 0) : (JSON.parse(pong) as { seq: number }).seq;
    }
    return this.#lastPushed;
  }

  async #acknowledge(): Promise<void> {
    // A short wait lets one write speak for a burst of pushes.
    await scheduler.wait(200);
    this.#acknowledging = false;
    try {
      const seq = await this.#position();
      await all(this.#db, sql`UPDATE streams SET pushed_seq = ${seq} WHERE name = ${this.#stream} AND pushed_seq < ${seq}`);
    } catch (error) {
      log("warn", "streams.acknowledge_failed", { stream: this.#stream, ...errorFields(error) });
    }
  }

  #inChain(task: () => Promise<void>): Promise<void> {
    const done = this.#chain.then(task);
    this.#chain = done.catch((error: unknown) => {
      log("error", "streams.push_failed", { stream: this.#stream, ...errorFields(error) });
    });
    return done;
  }
}

function send(socket: WebSocket, message: string): void {
  try {
    socket.send(message);
  } catch {
    closeSocket(socket, CLOSE_SERVER_ERROR, "could not send");
  }
}
