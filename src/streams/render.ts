/** Stored events as wire messages. Rendered once per event, whatever the number of sockets. */
import { toWireTime } from "../platform/time.ts";
import type { StreamEvent } from "./event-log.ts";

/**
 * How each event type looks on the wire: from the JSON text that its domain stored to the message's `data`. Each domain
 * exports its own table, and the objects that hold sockets pass in those of the streams they serve.
 */
export type EventViews = Readonly<Record<string, (body: string) => unknown>>;

export function renderEvent(views: EventViews, event: StreamEvent): string {
  const { type, stream, seq, at, body } = event;
  const view = views[type];
  if (view === undefined) throw new Error(`stream ${stream} has an event of unknown type ${type}`);
  return JSON.stringify({ type, stream, seq, at: toWireTime(at), data: view(body) });
}

/** `hello`, `snapshot` and `resync` carry the stream's last number without using one up. */
export function renderControl(
  type: "hello" | "snapshot" | "resync",
  stream: string,
  seq: number,
  data: unknown,
): string {
  return JSON.stringify({ type, stream, seq, at: toWireTime(Date.now()), data });
}
