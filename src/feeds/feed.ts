/** The sockets of one venue stream or one account stream. Pushes; decides nothing. */
import { DurableObject } from "cloudflare:workers";
import { config } from "../platform/config.ts";
import { submitCommand } from "../rfq/submit.ts";
import type { LoggedEvent } from "../streams/event-log.ts";
import { handleFrame } from "../rfq/socket-commands.ts";
import type { SocketsOf } from "../streams/notify.ts";
import { answerClose } from "../streams/socket.ts";
import { SocketHost } from "../streams/socket-host.ts";

export class Feed extends DurableObject<Env> {
  readonly #sockets: SocketHost;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#sockets = new SocketHost(ctx, env.DB, ctx.id.name ?? "");
  }

  push(events: readonly LoggedEvent[]): Promise<void> {
    return this.#sockets.push(events);
  }

  catchUp(): Promise<void> {
    return this.#sockets.catchUp();
  }

  async closeSockets(whose: SocketsOf): Promise<void> {
    this.#sockets.closeSockets(whose);
  }

  override async fetch(request: Request): Promise<Response> {
    const response = await this.#sockets.accept(request, config(this.env).STREAM_SOCKETS_PER_USER);
    await this.#wakeForExpiry();
    return response;
  }

  override async webSocketMessage(socket: WebSocket, message: string | ArrayBuffer): Promise<void> {
    await handleFrame(socket, message, {
      env: this.env,
      settings: config(this.env),
      submit: (command) => submitCommand(this.env, command),
    });
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    await this.#sockets.left();
  }

  override async webSocketError(): Promise<void> {
    await this.#sockets.left();
  }

  override async alarm(): Promise<void> {
    await this.#wakeForExpiry();
  }

  async #wakeForExpiry(): Promise<void> {
    const next = this.#sockets.closeEnded(Date.now());
    if (next !== null) await this.ctx.storage.setAlarm(next);
  }
}
