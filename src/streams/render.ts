/** Renders stored events as wire messages, once per event for any number of sockets. */
import { type EventRow, readEvent } from "../platform/event-forms.ts";
import { toWireTime } from "../platform/time.ts";
import type { StreamEvent } from "./event-log.ts";

/**
 * The wire form of each event type: from the columns that its domain stored and the instant of the
 * event to the message's `data`. Each domain exports a table; the objects that hold sockets pass in
 * the tables of the streams they serve.
 */
export type EventViews = Readonly<
  Record<string, (row: EventRow, at: number) => Record<string, unknown>>
>;

/** A message of a stream. Its JSON text is what every reader receives. */
export type EventMessage = {
  readonly type: string;
  readonly stream: string;
  readonly seq: number;
  readonly at: string;
  readonly data: Record<string, unknown>;
};

export function renderEvent(views: EventViews, event: StreamEvent): string {
  return JSON.stringify(eventMessage(views, event));
}

export function eventMessage(views: EventViews, event: StreamEvent): EventMessage {
  const { stream, seq, at } = event;
  const { type, row } = readEvent(event);
  const view = views[type];
  if (view === undefined) throw new Error(`stream ${stream} has an event of unknown type ${type}`);
  return { type, stream, seq, at: toWireTime(at), data: view(row, at) };
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
