/** The sockets of one venue stream or one account stream. Pushes events and decides nothing. */
import { CUSTODY_EVENTS } from "../custody/event-views.ts";
import { ownBalances, ownUnfinishedWithdrawals } from "../custody/snapshot.ts";
import { config } from "../platform/config.ts";
import { RFQ_EVENTS } from "../rfq/event-views.ts";
import { openRequestsSnapshot, ownOpenRecords } from "../rfq/snapshot.ts";
import { SocketCommands } from "../rfq/socket-commands.ts";
import { NOTICE_EVENTS } from "../streams/notice.ts";
import { SocketPlaces } from "../streams/socket-places.ts";
import type { StreamContent } from "../streams/socket-host.ts";
import { StreamObject } from "../streams/stream-object.ts";

const ACCOUNT = "account:";

/** A client asks for the snapshot of an account stream, because older clients do not know it. */
function snapshotOf(stream: string): Pick<StreamContent, "snapshot" | "snapshotOnRequest"> {
  if (!stream.startsWith(ACCOUNT))
    return { snapshot: openRequestsSnapshot(stream), snapshotOnRequest: false };
  const userId = stream.slice(ACCOUNT.length);
  const snapshot = [
    ownBalances(userId),
    ...ownOpenRecords(userId),
    ownUnfinishedWithdrawals(userId),
  ];
  return { snapshot, snapshotOnRequest: true };
}

const VIEWS = { ...RFQ_EVENTS, ...CUSTODY_EVENTS, ...NOTICE_EVENTS };

export class Feed extends StreamObject {
  readonly #commands = new SocketCommands(this.env);
  readonly #places = new SocketPlaces(this.ctx.storage, this.env);

  constructor(ctx: DurableObjectState, env: Env) {
    const stream = ctx.id.name ?? "";
    super(ctx, env, { stream, views: VIEWS, ...snapshotOf(stream) });
  }

  override async alarm(): Promise<void> {
    const now = Date.now();
    await this.wakeAt(this.sockets.closeEnded(now));
    await this.sockets.check(now);
  }

  /**
   * Takes a place for a socket of the user of this account stream. Undefined if they have reached
   * the limit.
   */
  async takePlace(userId: string, stream: string): Promise<string | undefined> {
    return this.#places.take(userId, stream, config(this.env).STREAM_SOCKETS_PER_USER);
  }

  async leavePlace(place: string): Promise<void> {
    this.#places.leave(place);
  }

  protected override receive(socket: WebSocket, frame: string | ArrayBuffer): Promise<void> {
    return this.#commands.receive(socket, frame);
  }

  protected override async wakeAt(instant: number | null): Promise<void> {
    if (instant !== null) await this.ctx.storage.setAlarm(instant);
  }
}
