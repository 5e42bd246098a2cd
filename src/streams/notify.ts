/** Notifies the objects with sockets about committed events. Cron repeats what was lost. */
import { logged } from "../platform/log.ts";
import { near } from "../platform/near.ts";
import { all, sql } from "../platform/sql.ts";
import type { Pusher, StreamEvent } from "./event-log.ts";

/** Sockets of a user, of one key, or of a user's sessions (all, or of epochs below one). */
export type SocketsOf =
  | { readonly userId: string }
  | { readonly apiKeyId: string }
  | { readonly sessionsOf: string; readonly belowEpoch?: number };

/** Streams notified at once. Each call is a subrequest, of which a Worker has a bounded number. */
const MAX_STREAMS_PER_SWEEP = 500;

/** The object with a stream's sockets: RfqBook for `book:` streams, Feed for the others. */
export function streamObject(env: Env, stream: string) {
  return stream.startsWith("book:")
    ? bookObject(env, stream.slice("book:".length))
    : near(env, env.FEED, stream);
}

export function bookObject(env: Env, asset: string): ReturnType<Env["RFQ_BOOK"]["getByName"]> {
  return near(env, env.RFQ_BOOK, asset);
}

/** Sends events to the objects of their streams. Never throws. */
export async function notifyStreams(env: Env, events: readonly StreamEvent[]): Promise<void> {
  await Promise.all(
    [...Map.groupBy(events, (event) => event.stream)].map(([stream, own]) =>
      streamObject(env, stream).push(own).catch(failed(stream)),
    ),
  );
}

/** For `commitAndPush`. */
export function pusherOf(env: Env): Pusher {
  return { db: env.DB, push: (events) => notifyStreams(env, events) };
}

/** Cron: notifies subscribed streams whose object has not acknowledged the last event. */
export async function renotify(env: Env): Promise<void> {
  const behind = await all<{ name: string }>(
    env.DB,
    // Starts from the subscribers, because most streams have none and never count as pushed.
    // Any order but a fixed one: streams that stay behind must not starve the others.
    sql`SELECT s.name FROM stream_subscribers r CROSS JOIN streams s ON s.name = r.name
      WHERE s.pushed_seq < s.last_seq ORDER BY random() LIMIT ${MAX_STREAMS_PER_SWEEP}`,
  );
  await catchUpStreams(
    env,
    behind.map(({ name }) => name),
  );
}

/** Never throws. */
export async function catchUpStreams(env: Env, names: readonly string[]): Promise<void> {
  await Promise.all(names.map((name) => streamObject(env, name).catchUp().catch(failed(name))));
}

/** Closes the sockets of a revoked key, ended sessions or a frozen user on a stream. Never throws. */
export async function closeSockets(env: Env, stream: string, whose: SocketsOf): Promise<void> {
  await streamObject(env, stream).closeSockets(whose).catch(failed(stream));
}

const failed = (stream: string) => logged("warn", "streams.notify_failed", { stream });
