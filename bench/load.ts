/**
 * Closed-loop HTTP load over raw sockets in a thread of its own. Requests are signed and encoded
 * before the clock starts, so that the generator takes little processor time from the process under
 * test.
 */
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

export type Load = {
  readonly port: number;
  /** One connection per lane. Each request waits for the response to the one before. */
  readonly lanes: readonly (readonly Uint8Array[])[];
  /** Repeats the lanes for this long after the warm-up. If omitted, sends each request once. */
  readonly forMs?: number;
  /** At least this time between the requests of a lane. If omitted, they follow at once. */
  readonly everyMs?: number;
  /** Counts a connection that the Worker closes, and opens another. If omitted, the load fails. */
  readonly reconnect?: boolean;
  /** Puts another value into each sent request in the place of `FRESH_KEY`. */
  readonly freshKeys?: boolean;
  /** Not counted in the result. */
  readonly warmUpMs?: number;
  /** Returns the body of every response, in the order of the lanes. */
  readonly collect?: boolean;
};

export type LoadResult = {
  readonly perSecond: number;
  readonly done: number;
  /** Includes the requests of the warm-up. */
  readonly all: number;
  readonly ms: number;
  /** Milliseconds of each counted request. */
  readonly latencies: readonly number[];
  readonly statuses: Readonly<Record<number, number>>;
  readonly closed: number;
  /** The first response that was not successful. */
  readonly firstFailure: string | null;
  readonly bodies: readonly (readonly string[])[];
};

/** An idempotency key, which is sent only once if the load has `freshKeys`. */
export const FRESH_KEY = "bench-000000000000";

/** Runs the load in a worker thread. */
export function drive(load: Load): Promise<LoadResult> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(import.meta.filename, { workerData: { benchLoad: load } });
    thread.once("message", resolve);
    thread.once("error", reject);
    thread.once("exit", (code) => reject(new Error(`the load generator ended with ${code}`)));
  });
}

/** The bytes of one HTTP/1.1 request. */
export function httpRequest(request: {
  method: string;
  target: string;
  headers?: Readonly<Record<string, string>>;
  body?: string;
}): Uint8Array {
  const { method, target, headers = {}, body } = request;
  const all: Record<string, string> = {
    host: "127.0.0.1",
    ...headers,
    ...(body === undefined
      ? {}
      : { "content-type": "application/json", "content-length": String(Buffer.byteLength(body)) }),
  };
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`${method} ${target} HTTP/1.1\r\n${head.join("")}\r\n${body ?? ""}`);
}

/** `each` requests of each owner of a lane, made in the order of lanes and steps. */
export function lanesOf<Owner>(
  owners: readonly Owner[],
  each: number,
  requestOf: (owner: Owner, lane: number, step: number) => Promise<Uint8Array>,
): Promise<Uint8Array[][]> {
  return Promise.all(
    owners.map((owner, lane) =>
      Promise.all(Array.from({ length: each }, (_, step) => requestOf(owner, lane, step))),
    ),
  );
}

const TIMEOUT_MS = 120_000;

/** Runs the load in this thread. For single requests, because starting a thread takes longer. */
export async function run(load: Load): Promise<LoadResult> {
  const countFrom = performance.now() + (load.warmUpMs ?? 0);
  const until = load.forMs === undefined ? Number.POSITIVE_INFINITY : countFrom + load.forMs;
  const counts = new Counts(countFrom, until);
  const lanes = load.lanes.map((requests) => runLane(load, requests, counts));
  const bodies = await Promise.all(lanes);
  const { all, latencies, statuses, closed, firstFailure } = counts;
  const ms = load.forMs ?? counts.last - countFrom;
  const done = latencies.length;
  const perSecond = done / (ms / 1_000);
  return { perSecond, done, all, ms, latencies, statuses, closed, firstFailure, bodies };
}

/** What all lanes count together. */
class Counts {
  readonly latencies: number[] = [];
  readonly statuses: Record<number, number> = {};
  firstFailure: string | null = null;
  all = 0;
  closed = 0;
  /** When the last counted response came. */
  last: number;
  readonly until: number;
  readonly #from: number;
  readonly #prefix = randomBytes(3).toString("hex");
  #keys = 0;

  constructor(from: number, until: number) {
    this.#from = from;
    this.last = from;
    this.until = until;
  }

  add({ status, body }: Response, sentAt: number, now: number): void {
    this.all += 1;
    if (now >= this.#from && now <= this.until) {
      this.latencies.push(now - sentAt);
      this.statuses[status] = (this.statuses[status] ?? 0) + 1;
      this.last = now;
    }
    if (status >= 300) this.firstFailure ??= `${status} ${body()}`;
  }

  /** The header is not signed, so the signature stays valid. */
  withFreshKey(request: Uint8Array): Uint8Array {
    const copy = Buffer.from(request);
    const keyAt = copy.indexOf(FRESH_KEY);
    if (keyAt !== -1) copy.write(this.#prefix + String(++this.#keys).padStart(12, "0"), keyAt);
    return copy;
  }
}

/** Sends the requests one after the other. Returns the bodies, if the load collects them. */
function runLane(load: Load, requests: readonly Uint8Array[], counts: Counts): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const bodies: string[] = [];
    let next = 0;
    let sentAt = 0;
    let pending: Buffer = Buffer.alloc(0);
    let socket: Socket;
    const send = () => {
      const request = load.forMs === undefined ? requests[next] : requests[next % requests.length];
      sentAt = performance.now();
      if (request === undefined || sentAt >= counts.until) {
        socket.destroy();
        return resolve(bodies);
      }
      next += 1;
      socket.write(load.freshKeys === true ? counts.withFreshKey(request) : request);
    };
    const onClose = () => {
      if (load.reconnect !== true) return reject(new Error("the Worker closed a connection"));
      if (performance.now() >= counts.until) return resolve(bodies);
      counts.closed += 1;
      setTimeout(open, load.everyMs ?? 0);
    };
    const onData = (chunk: Buffer) => {
      pending = pending.byteLength === 0 ? chunk : Buffer.concat([pending, chunk]);
      const response = readResponse(pending);
      if (response === undefined) return;
      pending = Buffer.alloc(0);
      const now = performance.now();
      counts.add(response, sentAt, now);
      if (load.collect === true) bodies.push(response.body());
      const pauseMs = (load.everyMs ?? 0) - (now - sentAt);
      if (pauseMs > 0) setTimeout(send, pauseMs);
      else send();
    };
    const open = () => {
      pending = Buffer.alloc(0);
      socket = connect({ port: load.port, host: "127.0.0.1", noDelay: true });
      socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error("no response in time")));
      socket.once("error", (error) => {
        if (load.reconnect !== true) reject(error);
      });
      socket.once("connect", send);
      socket.once("close", onClose);
      socket.on("data", onData);
    };
    open();
  });
}

type Response = { readonly status: number; readonly body: () => string };

/** Parses one response by its length or chunks. Undefined while bytes are missing. */
function readResponse(bytes: Buffer): Response | undefined {
  const headEnd = bytes.indexOf("\r\n\r\n");
  if (headEnd === -1) return undefined;
  const head = bytes.toString("latin1", 0, headEnd);
  const status = Number(head.slice(9, 12));
  const bodyAt = headEnd + 4;
  const length = /\r\ncontent-length: *(\d+)/i.exec(head);
  if (length !== null) {
    const end = bodyAt + Number(length[1]);
    return bytes.byteLength < end
      ? undefined
      : { status, body: () => bytes.toString("utf8", bodyAt, end) };
  }
  if (!bytes.subarray(-5).equals(LAST_CHUNK)) return undefined;
  return { status, body: () => joinChunks(bytes.toString("utf8", bodyAt)) };
}

const LAST_CHUNK = Buffer.from("0\r\n\r\n");

function joinChunks(text: string): string {
  let [rest, whole] = [text, ""];
  for (;;) {
    const lineEnd = rest.indexOf("\r\n");
    const size = Number.parseInt(rest.slice(0, lineEnd), 16);
    if (!(size > 0)) return whole;
    whole += rest.slice(lineEnd + 2, lineEnd + 2 + size);
    rest = rest.slice(lineEnd + 4 + size);
  }
}

if (!isMainThread) {
  const { benchLoad } = (workerData ?? {}) as { benchLoad?: Load };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a MessagePort of Node, not a window
  if (benchLoad !== undefined) parentPort?.postMessage(await run(benchLoad));
}
