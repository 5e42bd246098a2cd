/** The sockets of one venue stream or one account stream. Pushes events and decides nothing. */
import { ownBalances, ownUnfinishedWithdrawals } from "../custody/snapshot-custody.ts";
import { config } from "../platform/config.ts";
import { logged } from "../platform/log.ts";
import { near } from "../platform/near.ts";
import { closeTimedOut } from "../rfq/cancel-after.ts";
import { onDisconnect } from "../rfq/cancel-on-disconnect.ts";
import { openRequestsSnapshot, ownOpenRecords } from "../rfq/snapshot-rfq.ts";
import { SocketCommands } from "../rfq/socket-commands.ts";
import { type StreamEvent, userOfStream } from "../streams/event-log.ts";
import { SocketPlaces } from "../streams/socket-places.ts";
import type { StreamContent } from "../streams/socket-host.ts";
import { nameOf, StreamObject } from "../streams/stream-object.ts";
import { EVENT_VIEWS, typeOf } from "./event-views.ts";

/** A client asks for the snapshot of an account stream, because older clients do not know it. */
function snapshotOf(stream: string): Pick<StreamContent, "snapshot" | "snapshotOnRequest"> {
  const userId = userOfStream(stream);
  if (userId === undefined)
    return { snapshot: openRequestsSnapshot(stream), snapshotOnRequest: false };
  const snapshot = [
    ownBalances(userId),
    ...ownOpenRecords(userId),
    ownUnfinishedWithdrawals(userId),
  ];
  return { snapshot, snapshotOnRequest: true };
}

/** Storage key of the instant at which a cancel-after timer of the user may run out. */
const TIMER = "timer";

/** Storage key of the webhooks that read this account stream. */
const WEBHOOKS = "webhooks";
type Listener = { readonly id: string; readonly types: readonly string[] };

function webhooksOf(ctx: DurableObjectState): readonly Listener[] {
  return ctx.storage.kv.get<Listener[]>(WEBHOOKS) ?? [];
}

export class Feed extends StreamObject {
  readonly #commands = new SocketCommands(this.env);
  readonly #places = new SocketPlaces(this.ctx.storage, this.env);
  readonly #name: string;
  /** The earliest timer that was set since the alarm began to look for timers. */
  #setMeanwhile: number | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    const stream = nameOf(ctx);
    super(ctx, env, {
      stream,
      views: EVENT_VIEWS,
      ...snapshotOf(stream),
      onDisconnect: onDisconnect(env),
      hasReaders: () => webhooksOf(ctx).length > 0,
    });
    this.#name = stream;
  }

  protected override async wake(at: number): Promise<void> {
    await this.#closeTimedOut(at);
    await this.sockets.check(at);
  }

  override async push(events: readonly StreamEvent[]): Promise<void> {
    // Makers have many more quotes than events for webhooks.
    this.#wakeWebhooks(({ types }) => events.some((event) => types.includes(typeOf(event))));
    await super.push(events);
  }

  override async catchUp(): Promise<void> {
    this.#wakeWebhooks(() => true);
    await super.catchUp();
  }

  /** A webhook reads this account stream from now on. */
  async addWebhook(added: Listener): Promise<void> {
    this.#replaceWebhook(added.id, [added]);
    await this.sockets.subscribe();
  }

  async removeWebhook(endpointId: string): Promise<void> {
    this.#replaceWebhook(endpointId, []);
    await this.sockets.left();
  }

  #replaceWebhook(endpointId: string, by: readonly Listener[]): void {
    const others = webhooksOf(this.ctx).filter(({ id }) => id !== endpointId);
    this.ctx.storage.kv.put(WEBHOOKS, [...others, ...by]);
  }

  /** A lost call costs time only, because a webhook also looks for events itself. */
  #wakeWebhooks(wanted: (listener: Listener) => boolean): void {
    for (const { id } of webhooksOf(this.ctx).filter(wanted)) {
      const woken = near(this.env, this.env.WEBHOOK, id).wake(id);
      this.ctx.waitUntil(woken.catch(logged("warn", "webhooks.not_woken", { endpoint_id: id })));
    }
  }

  /** Closes a credential's quotes at this instant, unless its timer was moved by then. */
  async closeQuotesAt(instant: number): Promise<void> {
    this.#setMeanwhile = Math.min(instant, this.#setMeanwhile ?? instant);
    const known = this.ctx.storage.kv.get<number>(TIMER);
    // The alarm looks for timers that were moved, so most calls store nothing.
    if (known === undefined || instant < known) this.ctx.storage.kv.put(TIMER, instant);
    await this.wakeAt(Math.min(instant, known ?? instant));
  }

  /** Takes a place for a socket of this stream's user. Undefined if they have reached the limit. */
  async takePlace(userId: string, stream: string): Promise<string | undefined> {
    return this.#places.take(userId, stream, config(this.env).STREAM_SOCKETS_PER_USER);
  }

  async leavePlace(place: string): Promise<void> {
    this.#places.leave(place);
  }

  protected override receive(socket: WebSocket, frame: string | ArrayBuffer): Promise<void> {
    return this.#commands.receive(socket, frame);
  }

  async #closeTimedOut(at: number): Promise<void> {
    const due = this.ctx.storage.kv.get<number>(TIMER);
    const userId = userOfStream(this.#name);
    if (due === undefined || userId === undefined) return;
    if (due > at) return this.wakeAt(due);
    this.#setMeanwhile = null;
    const next = await closeTimedOut(this.env, userId);
    // Deleted only now, so that the alarm looks again after a failure.
    this.ctx.storage.kv.delete(TIMER);
    for (const instant of [next, this.#setMeanwhile])
      if (instant !== null) await this.closeQuotesAt(instant);
  }
}
