/**
 * What the Durable Objects that hold sockets share: RfqBook for book streams, Feed for the others.
 */
import { DurableObject } from "cloudflare:workers";
import { config } from "../platform/config.ts";
import type { StreamEvent } from "./event-log.ts";
import type { SocketsOf } from "./notify.ts";
import { answerClose } from "./socket.ts";
import { SocketHost, type StreamContent } from "./socket-host.ts";

export abstract class StreamObject extends DurableObject<Env> {
  protected readonly sockets: SocketHost;

  constructor(ctx: DurableObjectState, env: Env, content: StreamContent) {
    super(ctx, env);
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
    this.sockets.closeSockets(whose);
  }

  /** The upgrade of a socket that the Worker has authenticated. */
  override async fetch(request: Request): Promise<Response> {
    const response = await this.sockets.accept(request, config(this.env).STREAM_SOCKETS_PER_USER);
    await this.wakeAt(this.sockets.closeEnded(Date.now()));
    return response;
  }

  override webSocketMessage(socket: WebSocket, frame: string | ArrayBuffer): Promise<void> {
    return this.receive(socket, frame);
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    await this.sockets.left();
  }

  override async webSocketError(): Promise<void> {
    await this.sockets.left();
  }
}
