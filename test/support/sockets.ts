/**
 * Subscribers of a stream, connected to the stream's object as the Worker connects them once it has
 * consumed their ticket.
 */
import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect } from "vitest";
import { EVENT_VIEWS } from "../../src/feeds/event-views.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { streamObject } from "../../src/streams/notify.ts";
import { renderEvent } from "../../src/streams/render.ts";
import { eventsBetween } from "../../src/streams/replay.ts";
import { ACTOR_HEADER } from "../../src/streams/socket.ts";
import { FULL } from "./depth.ts";

type Message = {
  type: string;
  stream: string;
  seq: number;
  at: string;
  id?: string | null;
  data: any;
};

export type Subscriber = {
  readonly socket: WebSocket;
  readonly messages: Message[];
  closed: { code: number; reason: string } | undefined;
  /** The messages that have a number of their own. */
  events(): Message[];
  /** Waits for a message of this type, or for one that fits, and returns it. */
  until(fits: string | ((message: Message) => boolean)): Promise<Message>;
  /** Waits for the event with this number. */
  untilEvent(seq: number): Promise<Message>;
  /** Waits until the socket is closed and returns the code. */
  untilClosed(): Promise<number>;
  /** Sends a text frame, a command as JSON. */
  send(frame: object | string): void;
};

const CONTROL = new Set(["hello", "snapshot", "resync", "skipped", "pong", "result", "error"]);
const WAIT_MS = 60_000;

export async function connect(
  { actor }: { readonly actor: Actor },
  stream: string,
  since?: number,
  {
    snapshot = false,
    armed = false,
    assets,
  }: {
    readonly snapshot?: boolean;
    readonly armed?: boolean;
    readonly assets?: readonly string[];
  } = {},
): Promise<Subscriber> {
  const url = new URL("https://stream.internal/");
  if (since !== undefined) url.searchParams.set("since", String(since));
  if (assets !== undefined) url.searchParams.set("assets", assets.join(","));
  if (snapshot) url.searchParams.set("snapshot", "true");
  const headers = {
    upgrade: "websocket",
    [ACTOR_HEADER]: JSON.stringify({ actor, endsAt: null, armed }),
  };
  const response = await streamObject(env, stream).fetch(new Request(url, { headers }));
  expect(response.status).toBe(101);
  const socket = response.webSocket;
  if (socket === null) throw new Error("no socket");
  return subscribe(socket);
}

function subscribe(socket: WebSocket): Subscriber {
  const messages: Message[] = [];
  const isEvent = ({ type }: Message) => !CONTROL.has(type);
  const subscriber: Subscriber = {
    socket,
    messages,
    closed: undefined,
    events: () => messages.filter(isEvent),
    until: (fits) =>
      waitFor(
        () => messages.find((it) => (typeof fits === "string" ? it.type === fits : fits(it))),
        () => `no such message among ${JSON.stringify(messages)}`,
      ),
    untilEvent: (seq) => subscriber.until((it) => isEvent(it) && it.seq === seq),
    untilClosed: () =>
      waitFor(
        () => subscriber.closed?.code,
        () => "the socket is still open",
      ),
    send: (frame) => socket.send(typeof frame === "string" ? frame : JSON.stringify(frame)),
  };
  socket.addEventListener("message", (event) => {
    messages.push(JSON.parse(String(event.data)));
  });
  socket.addEventListener("close", (event) => {
    subscriber.closed = { code: event.code, reason: event.reason };
  });
  socket.accept();
  return subscriber;
}

async function waitFor<T>(find: () => T | undefined, failure: () => string): Promise<T> {
  for (let waited = 0; waited < WAIT_MS; waited += 5) {
    const found = find();
    if (found !== undefined) return found;
    await scheduler.wait(5);
  }
  throw new Error(failure());
}

/** Evicts the object of a stream, which must be running. Its sockets hibernate, or are closed. */
export async function evict(
  stream: string,
  webSockets: "hibernate" | "close" = "hibernate",
): Promise<void> {
  const object = stream.startsWith("book:")
    ? env.RFQ_BOOK.getByName(stream.slice("book:".length))
    : env.FEED.getByName(stream);
  await evictDurableObject(object, { webSockets });
}

type MaybeEvict = (...streams: string[]) => Promise<void>;

/**
 * Runs tests with an eviction of the stream's objects wherever a test calls `maybeEvict`. The
 * runtime may evict an object at any time, so nothing may depend on its memory. The release run
 * also has the objects awake.
 */
export function awakeAndEvicted(title: string, tests: (maybeEvict: MaybeEvict) => void): void {
  describe.each(FULL ? ["awake", "evicted"] : ["evicted"])(`${title} (%s)`, (state) => {
    tests(async (...streams) => {
      if (state === "evicted") for (const stream of streams) await evict(stream);
    });
  });
}

/** All events of a stream, as a reader receives them. Fails on a gap or a repeated number. */
export async function storedEvents(stream: string): Promise<Message[]> {
  const events: Message[] = [];
  const [head] = await all<{ first_seq: number; last_seq: number }>(
    env.DB,
    sql`SELECT first_seq, last_seq FROM streams WHERE name = ${stream}`,
  );
  // A stream starts above those that other tests have removed.
  const after = (head?.first_seq ?? 1) - 1;
  for await (const page of eventsBetween(env.DB, stream, {
    after,
    upTo: head?.last_seq ?? 0,
  })) {
    for (const event of page) {
      expect(event.seq).toBe((events.at(-1)?.seq ?? after) + 1);
      events.push(JSON.parse(renderEvent(EVENT_VIEWS, event).message));
    }
  }
  return events;
}

/** The status of each request and quote at the end of a stream. */
export async function replay(
  stream: string,
): Promise<{ requests: Map<string, string>; quotes: Map<string, string> }> {
  const requests = new Map<string, string>();
  const quotes = new Map<string, string>();
  for (const { type, data } of await storedEvents(stream)) {
    if (type === "request.opened") requests.set(data.request_id, "open");
    if (type === "request.closed") requests.set(data.request_id, data.reason);
    if (type === "quote.opened" || type === "quote.received") quotes.set(data.quote_id, "open");
    if (type === "quote.closed") quotes.set(data.quote_id, data.reason);
  }
  return { requests, quotes };
}
