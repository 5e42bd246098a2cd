/** Renders stored events as wire messages, once per event for any number of sockets. */
import {
  type EventForm,
  type EventKinds,
  type EventRow,
  kindsOf,
  readEvent,
} from "../platform/event-forms.ts";
import { toWireTime } from "../platform/time.ts";
import type { StreamEvent } from "./event-log.ts";

/** From the columns of an event and its instant to the `data` of its message, by the type. */
type Views = Readonly<Record<string, (row: EventRow, at: number) => Record<string, unknown>>>;

/** The events of a domain: how they are stored, and their wire form. */
export type EventTable = { readonly forms: readonly EventForm[]; readonly views: Views };

/** The events of the streams that an object serves. */
export type EventViews = { readonly kinds: EventKinds; readonly views: Views };

export function eventViews(...tables: readonly EventTable[]): EventViews {
  return {
    kinds: kindsOf(...tables.flatMap(({ forms }) => forms)),
    views: Object.assign({}, ...tables.map(({ views }) => views)),
  };
}

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

export function eventMessage({ kinds, views }: EventViews, event: StreamEvent): EventMessage {
  const { stream, seq, at } = event;
  const { type, row } = readEvent(kinds, event);
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
