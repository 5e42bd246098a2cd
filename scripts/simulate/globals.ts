/**
 * Replaces every global through which the service could see real time, real randomness or the real
 * network. The service itself has no seam for the simulator, so what is simulated is what runs.
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { SocketPair } from "./sockets.ts";
import type { VirtualTime } from "./virtual-time.ts";

export type LogLine = { readonly level: string; readonly text: string };

/** The Fetch API's own class rejects status 101, which workerd uses for an upgrade. */
class UpgradeResponse {
  readonly body: unknown;
  readonly status: number;
  readonly webSocket: unknown;
  constructor(body: unknown, init: { readonly status?: number; readonly webSocket?: unknown }) {
    this.body = body;
    this.status = init.status ?? 200;
    this.webSocket = init.webSocket;
  }
}

class RequestResponsePair {
  readonly request: string;
  readonly response: string;
  constructor(request: string, response: string) {
    this.request = request;
    this.response = response;
  }
}

/**
 * What the audit log's seals use of WebCrypto, without its threads: their promises would settle in
 * real time.
 */
const SIGNATURES = {
  importKey: async (_format: string, given: Buffer | { x: string }) =>
    Buffer.isBuffer(given)
      ? createPrivateKey({ key: given, format: "der", type: "pkcs8" })
      : createPublicKey({ key: { kty: "OKP", crv: "Ed25519", ...given }, format: "jwk" }),
  exportKey: async (_format: string, key: KeyObject) =>
    createPublicKey(key).export({ format: "jwk" }),
  sign: async (_algorithm: object, key: KeyObject, data: Uint8Array) => sign(null, data, key),
  verify: async (_algorithm: object, key: KeyObject, signature: Buffer, data: Uint8Array) =>
    verify(null, data, key, signature),
};

export function replaceGlobals(
  time: VirtualTime,
  options: {
    readonly onLog: (line: LogLine) => void;
    readonly fetch: (...request: Parameters<typeof fetch>) => Promise<unknown>;
  },
): void {
  const bytes = (array: Uint8Array): Uint8Array => {
    const { dice } = time.current();
    for (let index = 0; index < array.length; index++) array[index] = dice.between(0, 255);
    return array;
  };
  Date.now = () => time.now;
  Math.random = () => time.current().dice.next();
  const set = (name: string, value: unknown) =>
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  set("FAILPOINTS", false);
  set("setTimeout", (callback: () => void, ms = 0) => {
    const timer = { cancelled: false };
    const process = time.current();
    time.after(ms, () => {
      if (!timer.cancelled && process.alive) time.runAs(process, callback);
    });
    return timer;
  });
  set("clearTimeout", (timer: { cancelled: boolean } | undefined) => {
    if (timer !== undefined) timer.cancelled = true;
  });
  set("scheduler", { wait: (ms: number) => time.sleep(ms) });
  set("crypto", {
    getRandomValues: bytes,
    randomUUID: () => uuidOf(bytes(new Uint8Array(16))),
    subtle: SIGNATURES,
  });
  set("fetch", options.fetch);
  set("Response", UpgradeResponse);
  set("WebSocketPair", SocketPair);
  set("WebSocketRequestResponsePair", RequestResponsePair);
  set("WebSocket", { READY_STATE_OPEN: 1 });
  const capture = (level: string) => (text: unknown) =>
    options.onLog({ level, text: String(text) });
  console.log = capture("info");
  console.warn = capture("warn");
  console.error = capture("error");
}

/** A UUID v4 from random bytes. */
function uuidOf(bytes: Uint8Array): string {
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Buffer.from(bytes).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
