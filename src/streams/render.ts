/** Renders stored events as wire messages, once per event for any number of sockets. */
import { toWireTime } from "../platform/time.ts";
import type { StreamEvent } from "./event-log.ts";

/**
 * The wire form of each event type: from the JSON text that its domain stored to the message's
 * `data`. Each domain exports a table; the objects that hold sockets pass in the tables of the
 * streams they serve.
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
