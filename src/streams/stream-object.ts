/** The base of the Durable Objects that hold sockets: RfqBook for book streams, Feed for others. */
import { DurableObject } from "cloudflare:workers";
import { logged } from "../platform/log.ts";
import { near } from "../platform/near.ts";
import { now } from "../platform/time.ts";
import { accountStream, type StreamEvent } from "./event-log.ts";
import type { SocketsOf } from "./notify.ts";
import type { Heard } from "./open-sockets.ts";
import { answerClose, readState, readUpgrade } from "./socket.ts";
import { FORGET_AFTER_MS } from "./subscription.ts";
import { SocketHost, type StreamContent } from "./socket-host.ts";

/** Delay of the next attempt after a failed alarm. */
export const RETRY_MS = 1_000;
const MIN_ALARM_MS = 50;
/** Storage keys of the object's name, the later ones of books and feeds before. */
const NAMES = ["name", "asset", "stream"] as const;

/** An alarm after a restart may run without the object's name. */
export function nameOf({ id, storage }: DurableObjectState): string {
  return id.name ?? NAMES.map((key) => storage.kv.get<string>(key)).find(Boolean) ?? "";
}

export abstract class StreamObject extends DurableObject<Env> {
  protected readonly sockets: SocketHost;
  readonly #stream: string;
  #alarmAt: number | null | undefined;

  constructor(ctx: DurableObjectState, env: Env, content: StreamContent) {
    super(ctx, env);
    this.#stream = content.stream;
    this.sockets = new SocketHost(ctx, env.DB, content);
  }

  /** A frame from a subscriber; the domain above knows the commands. */
  protected abstract receive(socket: WebSocket, frame: string | ArrayBuffer): Promise<void>;

  /** What the alarm does beside the sockets. */
  protected abstract wake(at: number): Promise<void>;

  override async alarm(): Promise<void> {
    this.#alarmAt = null;
    try {
      const at = now();
      // Sockets first: what waits for D1 must not keep sockets of ended credentials open.
      await this.wakeAt(this.sockets.open.closeEnded(at));
      await this.wake(at);
    } catch (error) {
      await this.wakeAt(now() + RETRY_MS);
      throw error;
    }
  }

  /** One alarm serves all that the object waits for. Only an earlier instant replaces it. */
  protected async wakeAt(instant: number | null): Promise<void> {
    if (instant === null) return;
    if (this.#alarmAt === undefined) this.#alarmAt = await this.ctx.storage.getAlarm();
    if (this.#alarmAt !== null && this.#alarmAt <= instant) return;
    this.#alarmAt = instant;
    this.ctx.storage.kv.put(NAMES[0], nameOf(this.ctx));
    // Never in the past: when D1's clock lags behind ours, nothing is due yet.
    await this.ctx.storage.setAlarm(Math.max(instant, now() + MIN_ALARM_MS));
  }

  /** Deletes the storage of an object that waits for nothing. It needs none until it is used. */
  protected async deleteStorage(): Promise<void> {
    await this.sockets.left();
    // Nothing is awaited between these lines, so no alarm is set that the deletion would take.
    if (this.#alarmAt !== null || this.ctx.getWebSockets().length > 0) return;
    if (this.sockets.mayForget()) await this.ctx.storage.deleteAll();
    else await this.wakeAt(now() + FORGET_AFTER_MS);
  }

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

  /** For accounts of the last release. */
  async placesOf(userId: string): Promise<string[]> {
    return this.sockets.open.heardOf(userId).map(({ place }) => place);
  }

  async heardOf(userId: string): Promise<Heard[]> {
    return this.sockets.open.heardOf(userId);
  }

  async closeSilent(userId: string, place: string, before: number): Promise<boolean> {
    return this.sockets.open.closeSilent(userId, place, before);
  }

  /** The ids of the sockets whose end cancels quotes and that are open, or about to be. */
  async armedSockets(): Promise<string[]> {
    return this.sockets.open.armed();
  }

  override async webSocketMessage(socket: WebSocket, frame: string | ArrayBuffer): Promise<void> {
    this.sockets.open.heard(socket);
    await this.receive(socket, frame);
    // A malformed or too large frame closes the socket.
    if (socket.readyState !== WebSocket.READY_STATE_OPEN) this.sockets.open.ended(socket);
  }

  override async webSocketClose(socket: WebSocket, code: number): Promise<void> {
    answerClose(socket, code);
    await this.#left(socket);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    await this.#left(socket);
  }

  async #left(socket: WebSocket): Promise<void> {
    this.sockets.open.ended(socket);
    const { actor, place } = readState(socket);
    await Promise.all([this.sockets.left(), this.#leavePlace(actor.userId, place)]);
  }

  /** Never throws, because a place whose notice was lost is found when the user needs it. */
  async #leavePlace(userId: string, place: string): Promise<void> {
    const left = this.#account(userId).leavePlace(place);
    await left.catch(logged("warn", "streams.place_not_left", { stream: this.#stream }));
  }

  #account(userId: string) {
    return near(this.env, this.env.FEED, accountStream(userId));
  }
}
