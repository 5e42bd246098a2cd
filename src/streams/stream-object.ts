/**
 * What the Durable Objects that hold sockets share: RfqBook for book streams, Feed for the others.
 */
import { DurableObject } from "cloudflare:workers";
import { errorFields, log } from "../platform/log.ts";
import { near } from "../platform/near.ts";
import { accountStream, type StreamEvent } from "./event-log.ts";
import type { SocketsOf } from "./notify.ts";
import { answerClose, readState, readUpgrade } from "./socket.ts";
import { SocketHost, type StreamContent } from "./socket-host.ts";

export abstract class StreamObject extends DurableObject<Env> {
  protected readonly sockets: SocketHost;
  readonly #stream: string;

  constructor(ctx: DurableObjectState, env: Env, content: StreamContent) {
    super(ctx, env);
    this.#stream = content.stream;
    this.sockets = new SocketHost(ctx, env.DB, content);
  }

  /** A frame from a subscriber; the domain above knows the commands. */
  protected abstract receive(socket: WebSocket, frame: string | ArrayBuffer): Promise<void>;

  /**
   * Arms the alarm for the instant at which the next credential of a socket ends; null when none
   * does.
   */
  protected abstract wakeAt(instant: number | null): Promise<void>;

  push(events: readonly StreamEvent[]): Promise<void> {
    return this.sockets.push(events);
  }

  catchUp(): Promise<void> {
    return this.sockets.catchUp();
  }

  async closeSockets(whose: SocketsOf): Promise<void> {
    this.sockets.open.closeOf(whose);
  }

  /** The upgrade of a socket that the Worker has authenticated. */
  override async fetch(request: Request): Promise<Response> {
    const { userId } = readUpgrade(request).actor;
    const place = await this.#account(userId).takePlace(userId, this.#stream);
    if (place === undefined) return new Response(null, { status: 429 });
    try {
      const response = await this.sockets.accept(request, place);
      await this.wakeAt(this.sockets.open.closeEnded(Date.now()));
      return response;
    } catch (error) {
      await this.#leavePlace(userId, place);
      throw error;
    }
  }

  /** The places of a user's open sockets on this stream. */
  async placesOf(userId: string): Promise<string[]> {
    return this.sockets.open.placesOf(userId);
  }

  /** The ids of the sockets whose end cancels quotes and that are open, or about to be. */
  async armedSockets(): Promise<string[]> {
    return this.sockets.open.armed.ids();
  }

  override async webSocketMessage(socket: WebSocket, frame: string | ArrayBuffer): Promise<void> {
    this.sockets.open.heard(socket);
    await this.receive(socket, frame);
    // A malformed or too large frame closes the socket.
    if (socket.readyState !== WebSocket.READY_STATE_OPEN) this.sockets.open.armed.ended(socket);
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    await this.#left(socket);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.#left(socket);
  }

  async #left(socket: WebSocket): Promise<void> {
    this.sockets.open.armed.ended(socket);
    const { actor, place } = readState(socket);
    await Promise.all([this.sockets.left(), this.#leavePlace(actor.userId, place)]);
  }

  /** Never throws, because a place whose notice was lost is found when the user needs it. */
  async #leavePlace(userId: string, place: string): Promise<void> {
    try {
      await this.#account(userId).leavePlace(place);
    } catch (error) {
      log("warn", "streams.place_not_left", { stream: this.#stream, ...errorFields(error) });
    }
  }

  #account(userId: string) {
    return near(this.env, this.env.FEED, accountStream(userId));
  }
}
