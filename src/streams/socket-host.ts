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

export class SocketHost {
  readonly #ctx: DurableObjectState;
  readonly #db: D1Database;
  readonly #stream: string;
  #chain: Promise<void> = Promise.resolve();
  #lastPushed: number | undefined;
  #acknowledging = false;

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
      if (this.#ctx.getWebSockets().length === 0) return closeStream(this.#db, this.#stream);
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
      if (this.#ctx.getWebSockets().length === 0) return closeStream(this.#db, this.#stream);
      const row = await first<{ last_seq: number }>(this.#db, sql`SELECT last_seq FROM streams WHERE name = ${this.#stream}`);
      if (row !== undefined) await this.#catchUpTo(row.last_seq);
      await this.#acknowledge();
    });
  }

  closeSockets(whose: SocketsOf): void {
    for (const socket of this.#ctx.getWebSockets(tagOf(whose))) closeSocket(socket, CLOSE_UNAUTHORIZED, "credential no longer valid");
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
      if (this.#ctx.getWebSockets().every((socket) => socket.readyState !== WebSocket.READY_STATE_OPEN)) await closeStream(this.#db, this.#stream);
    });
  }

  async #sync(socket: WebSocket, state: SocketState, since: number | undefined): Promise<void> {
    const isPublic = !this.#stream.startsWith("account:");
    const head = await openStream(this.#db, this.#stream, isPublic);
    if (this.#ctx.getWebSockets().length > 0) await this.#catchUpTo(head.lastSeq);
    this.#moveTo(head.lastSeq);
    this.#ctx.acceptWebSocket(socket, socketTags(state.actor));
    socket.serializeAttachment(state);
    const control = (type: "hello" | "snapshot" | "resync", data: unknown) => socket.send(renderControl(type, this.#stream, head.lastSeq, data));
    control("hello", { scopes: state.actor.scopes, server_time: toWireTime(Date.now()) });
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

  async #catchUpTo(lastSeq: number): Promise<void> {
    for await (const page of eventsBetween(this.#db, this.#stream, await this.#position(), lastSeq)) this.#broadcast(page);
  }

  #broadcast(events: readonly LoggedEvent[]): void {
    const sockets = this.#ctx.getWebSockets();
    for (const event of events) {
      const message = renderEvent(event);
      for (const socket of sockets) send(socket, message);
      this.#moveTo(event.seq);
    }
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
