/** A minimal websocket client: the part of RFC 6455 that text frames of our own server need. */
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";

export type BenchSocket = {
  send(text: string): void;
  onText: (text: string) => void;
  /** Stops reading, so that what the server sends stays in its buffers. */
  stopReading(): void;
  close(): void;
};

const TEXT = 0x1;
const CLOSE = 0x8;
const CONNECT_TIMEOUT_MS = 30_000;

/** Resolves when the server accepts the upgrade with 101. Rejects with any other response. */
export function openSocket(port: number, target: string): Promise<BenchSocket> {
  return new Promise((resolve, reject) => {
    const tcp = connect({ port, host: "127.0.0.1", noDelay: true });
    let open = false;
    let pending: Buffer = Buffer.alloc(0);
    const socket: BenchSocket = {
      send: (text) => tcp.write(frame(text)),
      onText: () => {},
      stopReading: () => tcp.pause(),
      close: () => tcp.destroy(),
    };
    const timer = setTimeout(
      () => tcp.destroy(new Error("no upgrade in time")),
      CONNECT_TIMEOUT_MS,
    );
    tcp.once("error", reject);
    tcp.once("close", () => {
      clearTimeout(timer);
      reject(new Error("closed before the upgrade"));
    });
    tcp.once("connect", () => tcp.write(upgrade(target)));
    tcp.on("data", (chunk: Buffer) => {
      pending = pending.byteLength === 0 ? chunk : Buffer.concat([pending, chunk]);
      if (!open) {
        const headEnd = pending.indexOf("\r\n\r\n");
        if (headEnd === -1) return;
        if (!pending.subarray(0, 12).equals(SWITCHING)) {
          tcp.destroy();
          return reject(new Error(`no upgrade: ${pending.toString().slice(0, 400)}`));
        }
        open = true;
        clearTimeout(timer);
        pending = pending.subarray(headEnd + 4);
        resolve(socket);
        // Frames that arrived with the response wait, so that the caller can set its handlers.
        setImmediate(() => (pending = deliver(pending, socket, tcp)));
        return;
      }
      pending = deliver(pending, socket, tcp);
    });
  });
}

export type SocketLoad = {
  /** The next command of a socket, without its id. */
  readonly commandOf: (socket: number, step: number) => Readonly<Record<string, unknown>>;
  /** Sends for this long after the warm-up. */
  readonly forMs?: number;
  readonly warmUpMs?: number;
  /** Sends so many commands on each socket. */
  readonly each?: number;
};

export type SocketLoadResult = {
  readonly perSecond: number;
  /** Includes the commands of the warm-up. */
  readonly all: number;
  readonly latencies: readonly number[];
  /** The data of each socket's results, in order. */
  readonly results: readonly (readonly Readonly<Record<string, unknown>>[])[];
};

/** A closed loop: each socket sends its next command when a result has arrived. */
export async function driveSockets(
  sockets: readonly BenchSocket[],
  { commandOf, forMs, warmUpMs = 0, each = Number.POSITIVE_INFINITY }: SocketLoad,
): Promise<SocketLoadResult> {
  const latencies: number[] = [];
  const countFrom = performance.now() + warmUpMs;
  const until = countFrom + (forMs ?? Number.POSITIVE_INFINITY);
  let all = 0;
  const results = await Promise.all(
    sockets.map(
      (socket, index) =>
        new Promise<Record<string, unknown>[]>((resolve, reject) => {
          const got: Record<string, unknown>[] = [];
          const waiting = new Map<string, number>();
          let step = 0;
          const send = () => {
            const at = performance.now();
            if (at < until && step < each) {
              const id = String(step);
              waiting.set(id, at);
              socket.send(JSON.stringify({ id, ...commandOf(index, step) }));
              step += 1;
            } else if (waiting.size === 0) resolve(got);
          };
          socket.onText = (text) => {
            const message = JSON.parse(text) as {
              type: string;
              id?: string;
              data?: Record<string, unknown>;
            };
            if (message.type === "error") reject(new Error(text));
            const sentAt = waiting.get(message.id ?? "");
            if (message.type !== "result" || sentAt === undefined) return;
            waiting.delete(message.id ?? "");
            const now = performance.now();
            all += 1;
            got.push(message.data ?? {});
            if (now >= countFrom && now <= until) latencies.push(now - sentAt);
            send();
          };
          send();
        }),
    ),
  );
  const ms = forMs ?? performance.now() - countFrom;
  return { perSecond: latencies.length / (ms / 1_000), all, latencies, results };
}

const SWITCHING = Buffer.from("HTTP/1.1 101");

function upgrade(target: string): string {
  return `GET ${target} HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${randomBytes(16).toString("base64")}\r\n\r\n`;
}

/** Delivers complete frames and returns the remaining bytes. */
function deliver(bytes: Buffer, socket: BenchSocket, tcp: Socket): Buffer {
  let from = 0;
  while (bytes.byteLength - from >= 2) {
    const opcode = (bytes[from] ?? 0) & 0x0f;
    let length = (bytes[from + 1] ?? 0) & 0x7f;
    let head = 2;
    if (length === 126) {
      if (bytes.byteLength - from < 4) break;
      length = bytes.readUInt16BE(from + 2);
      head = 4;
    } else if (length === 127) {
      if (bytes.byteLength - from < 10) break;
      length = Number(bytes.readBigUInt64BE(from + 2));
      head = 10;
    }
    const end = from + head + length;
    if (bytes.byteLength < end) break;
    const payload = bytes.subarray(from + head, end);
    if (opcode === TEXT) socket.onText(payload.toString());
    else if (opcode === CLOSE) tcp.end();
    from = end;
  }
  return bytes.subarray(from);
}

/** RFC 6455 requires clients to mask frames. A mask of zeros is valid. */
function frame(text: string): Buffer {
  const payload = Buffer.from(text);
  return Buffer.concat([frameHead(payload.byteLength), Buffer.alloc(4), payload]);
}

function frameHead(length: number): Buffer {
  if (length < 126) return Buffer.from([0x80 | TEXT, 0x80 | length]);
  if (length < 65_536) return Buffer.from([0x80 | TEXT, 0x80 | 126, length >> 8, length & 0xff]);
  const head = Buffer.alloc(10);
  head.set([0x80 | TEXT, 0x80 | 127]);
  head.writeBigUInt64BE(BigInt(length), 2);
  return head;
}
