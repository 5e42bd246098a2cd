/** Renders stored events as wire messages, once per event for any number of sockets. */
import {
  type EventForm,
  type EventKinds,
  type EventRow,
  kindsOf,
  readAssetId,
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

/** An event as the sockets of its stream receive it. */
export type Rendered = {
  readonly type: string;
  readonly seq: number;
  readonly message: string;
  /** The asset that the event concerns, if it stores one. */
  readonly assetId: string | undefined;
};

export function renderEvent(views: EventViews, event: StreamEvent): Rendered {
  const { row, ...message } = viewed(views, event);
  const assetId = row["asset_id"];
  return {
    type: message.type,
    seq: event.seq,
    message: JSON.stringify(message),
    assetId: typeof assetId === "string" ? readAssetId(assetId) : undefined,
  };
}

export function eventMessage(views: EventViews, event: StreamEvent): EventMessage {
  const { row: _, ...message } = viewed(views, event);
  return message;
}

function viewed(
  { kinds, views }: EventViews,
  event: StreamEvent,
): EventMessage & { row: EventRow } {
  const { stream, seq, at } = event;
  const { type, row } = readEvent(kinds, event);
  const view = views[type];
  if (view === undefined) throw new Error(`stream ${stream} has an event of unknown type ${type}`);
  return { type, stream, seq, at: toWireTime(at), data: view(row, at), row };
}

/** Renders a message that carries a number of the stream without using one up. */
export function renderControl(
  type: "hello" | "snapshot" | "resync" | "skipped",
  stream: string,
  seq: number,
  data: unknown,
): string {
  return JSON.stringify({ type, stream, seq, at: toWireTime(Date.now()), data });
}
