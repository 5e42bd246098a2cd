/** The sockets of one venue stream or one account stream. Pushes events and decides nothing. */
import { CUSTODY_EVENTS } from "../custody/event-views.ts";
import { RFQ_EVENTS } from "../rfq/event-views.ts";
import { openRequestsSnapshot } from "../rfq/snapshot.ts";
import { SocketCommands } from "../rfq/socket-commands.ts";
import { NOTICE_EVENTS } from "../streams/notice.ts";
import { StreamObject } from "../streams/stream-object.ts";

const VIEWS = { ...RFQ_EVENTS, ...CUSTODY_EVENTS, ...NOTICE_EVENTS };

export class Feed extends StreamObject {
  readonly #commands = new SocketCommands(this.env);

  constructor(ctx: DurableObjectState, env: Env) {
    const stream = ctx.id.name ?? "";
    super(ctx, env, { stream, views: VIEWS, snapshot: openRequestsSnapshot(stream) });
  }

  override async alarm(): Promise<void> {
    const now = Date.now();
    await this.wakeAt(this.sockets.closeEnded(now));
    await this.sockets.check(now);
  }

  protected override receive(socket: WebSocket, frame: string | ArrayBuffer): Promise<void> {
    return this.#commands.receive(socket, frame);
  }

  protected override async wakeAt(instant: number | null): Promise<void> {
    if (instant !== null) await this.ctx.storage.setAlarm(instant);
  }
}
