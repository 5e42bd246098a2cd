/**
 * Cancel on disconnect: when an armed socket ends, the open quotes of its key are cancelled. A
 * newer armed socket of the same key on the same stream takes over, if it was opened before the end
 * was noticed. Then nothing is cancelled.
 *
 * A row of `armed_sockets` is written before a socket is accepted, and deleted when it ends. A
 * quote that arrived on the socket is placed only while the row is there, so none commits after its
 * end. The row of a socket that was taken over is kept for its quotes in flight, until the end of
 * a newer one cancels the quotes of the key.
 */
import { PLATFORM } from "../platform/platform-limits.ts";
import { NOW } from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, type Expr, expr, listed, readUuid, sql, uuid } from "../platform/sql.ts";
import { rowsOf, trimUntilDone } from "../platform/trim.ts";
import type { ArmedSocket, OnDisconnect } from "../streams/open-sockets.ts";
import { streamObject } from "../streams/notify.ts";
import { closeInTurn, closeQuotes } from "./close-quotes.ts";

/**
 * Streams that cron asks in one minute. Each is a subrequest, of which a Worker has a bounded
 * number. If more are armed, each is asked in one of the next minutes (docs/contract.md).
 */
const MAX_STREAMS = PLATFORM.subrequests / 20;
/** Longer than a command can take from its receipt to its commit. */
const KEEP_TAKEN_OVER_MS = 600_000;

export function onDisconnect(env: Env): OnDisconnect {
  const arm = async ({ id, userId, apiKeyId, stream }: ArmedSocket) => {
    await all(
      env.DB,
      sql`INSERT INTO armed_sockets (socket_id, user_id, api_key_id, stream, asked_at)
        VALUES (${uuid(id)}, ${uuid(userId)}, ${uuid(apiKeyId)}, ${stream}, ${NOW})`,
    );
  };
  return { arm, ended: (socket) => endArmed(env, socket) };
}

/** Guard condition of a quote that arrived on this socket, or on none: it has not ended. */
export function socketNotEnded(socketId: Expr): Expr {
  return expr`${socketId} IS NULL OR EXISTS (SELECT 1 FROM armed_sockets a
    WHERE a.socket_id = ${socketId})`;
}

/** Cancels the open quotes of the key, unless a newer socket has taken over. Idempotent. */
async function endArmed(env: Env, { id, userId, apiKeyId, stream }: ArmedSocket): Promise<void> {
  const live = sql`a.socket_id = ${uuid(id)} AND a.taken_over_at IS NULL`;
  const newer = sql`EXISTS (SELECT 1 FROM armed_sockets n WHERE n.api_key_id = a.api_key_id
    AND n.stream = a.stream AND n.taken_over_at IS NULL AND n.armed_id > a.armed_id)`;
  const closing = {
    reason: "disconnect",
    which: () => sql`maker_id = ${uuid(userId)} AND credential = ${uuid(apiKeyId)}
      AND EXISTS (SELECT 1 FROM armed_sockets a WHERE ${live} AND NOT ${newer})`,
  } as const;
  await closeQuotes(env, closing, ({ at }) => [
    // Kept for a while, because its quotes in flight are placed.
    sql`UPDATE armed_sockets AS a SET taken_over_at = ${at} WHERE ${live} AND ${newer}`,
    // It is not live any more if it was taken over just now. Otherwise the sockets that were taken
    // over end with it, because their quotes in flight must not be placed after the cancels.
    sql`DELETE FROM armed_sockets WHERE api_key_id = ${uuid(apiKeyId)} AND stream = ${stream}
      AND (socket_id = ${uuid(id)} OR taken_over_at IS NOT NULL)
      AND EXISTS (SELECT 1 FROM armed_sockets a WHERE ${live})`,
  ]);
}

/** Cron: ends sockets whose object has died or does not respond. Returns whether more is due. */
export async function endLostSockets(env: Env): Promise<boolean> {
  const rows = await all<ArmedSocket>(
    env.DB,
    sql`SELECT hex(socket_id) AS id, hex(user_id) AS userId, hex(api_key_id) AS apiKeyId, stream
      FROM armed_sockets WHERE taken_over_at IS NULL AND stream IN (
        SELECT stream FROM armed_sockets WHERE taken_over_at IS NULL
        GROUP BY stream ORDER BY min(asked_at) LIMIT ${MAX_STREAMS})`,
  );
  const streams = Map.groupBy(rows, ({ stream }) => stream);
  // The next minute asks other streams first. If one minute suffices for all, nothing is written.
  if (streams.size >= MAX_STREAMS)
    await all(
      env.DB,
      sql`UPDATE armed_sockets SET asked_at = ${NOW}
      WHERE taken_over_at IS NULL
        AND stream IN (${listed([...streams.keys()])})`,
    );
  const lost = await Promise.all(
    [...streams].map(async ([stream, armed]) => {
      const open = new Set(await openSockets(env, stream));
      return armed.filter(({ id }) => !open.has(readUuid(id)));
    }),
  );
  const end = (socket: ArmedSocket) => endArmed(env, socket);
  const failed = ({ stream }: ArmedSocket) => ["rfq.disconnect_failed", { stream }] as const;
  if (await closeInTurn(env, lost.flat(), end, failed)) return true;
  const takenOver = sql`WHERE taken_over_at < ${NOW} - ${KEEP_TAKEN_OVER_MS}`;
  await trimUntilDone(env.DB, rowsOf("armed_sockets", "armed_id", takenOver));
  return false;
}

/** Sockets of the object, none if it does not respond twice: a dead one must not keep quotes. */
async function openSockets(env: Env, stream: string): Promise<readonly string[]> {
  for (const attempt of [1, 2]) {
    try {
      return await streamObject(env, stream).armedSockets();
    } catch (error) {
      log("warn", "rfq.sockets_unknown", { stream, attempt, ...errorFields(error) });
    }
  }
  return [];
}
