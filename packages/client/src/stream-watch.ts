/** Detects a connection that is dead or has lost messages. */
import { deferred } from "./deferred.ts";
import type { ServerClock } from "./server-clock.ts";
import type { StreamOrder } from "./stream-order.ts";
import { sendQuietly, type WebSocketLike } from "./websocket.ts";

const PING_INTERVAL_MS = 15_000;
/**
 * Also pings each time it has received this much. The service closes a subscriber (4408) that was
 * sent 4 MiB without sending anything.
 */
const PING_EVERY_CHARS = 1_048_576;
/** A connection without a message for this long after a ping is dead. */
const SILENCE_MS = 10_000;
/** A gap that is open this long means that messages were lost. */
const GAP_MS = 5_000;
const HELLO_TIMEOUT_MS = 15_000;

/**
 * Pings the service, and keeps its clock fresh. Gives up on silence, on a gap that stays, or
 * without a hello message.
 */
export function watchConnection(socket: WebSocketLike, order: StreamOrder, clock: ServerClock) {
  const gaveUp = deferred<string>();
  let heardAt = performance.now();
  let pingedAt: number | null = null;
  let received = 0;
  let gapSince: number | null = null;
  let greeted = false;
  const startedAt = heardAt;
  const ping = (now: number) => {
    pingedAt = now;
    received = 0;
    sendQuietly(socket, "ping");
  };
  const timer = setInterval(() => {
    const now = performance.now();
    if (!greeted) {
      if (now - startedAt > HELLO_TIMEOUT_MS) gaveUp.resolve("no hello");
      return;
    }
    if (pingedAt !== null && heardAt < pingedAt && now - pingedAt > SILENCE_MS)
      gaveUp.resolve("silence");
    gapSince = order.hasGap ? (gapSince ?? now) : null;
    if (gapSince !== null && now - gapSince > GAP_MS) gaveUp.resolve("a gap was not filled");
    if (pingedAt === null || now - pingedAt > PING_INTERVAL_MS) ping(now);
    void clock.fresh(0);
  }, 1_000);
  return {
    gaveUp: gaveUp.promise,
    heard: (text: string) => {
      heardAt = performance.now();
      received += text.length;
      if (received >= PING_EVERY_CHARS) ping(heardAt);
    },
    greeted: () => void (greeted = true),
    end: () => clearInterval(timer),
  };
}
