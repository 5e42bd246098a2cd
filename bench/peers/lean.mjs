/**
 * The peer of `quotes`: the leanest quotes that one D1 can hold. Sockets, a signed route and an
 * object that commits in groups, as ours, and for each quote one row and one balance. One statement
 * places all quotes of a group, a trigger promises the money, and its CHECK refuses what the maker
 * does not have. There are no events, keys of idempotency, limits, or conditions of the request.
 * `POST /rfq/quote` only verifies the signature and calls the object.
 */
import { DurableObject } from "cloudflare:workers";
import {
  canonicalMessage,
  importHmacKey,
  parseTimestampMs,
  verifySignature,
} from "../../src/auth/hmac.ts";

/** As the settings of the service. */
const WAIT_MS = 2;
const GROUP = 256;
const TOLERANCE_MS = 300_000;
const PLACE = `INSERT INTO quotes (quote_id, request_id, maker, price, amount, reserve, expires_at, status)
  SELECT unhex(q.value ->> 0), unhex(q.value ->> 1), unhex(q.value ->> 2), q.value ->> 3, 1000,
    1000, q.value ->> 4, 'open' FROM json_each(?) q`;

export class Peer extends DurableObject {
  #waiting = [];
  #running = false;
  #lastSize = 0;
  #placed = 0;

  fetch(request) {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server);
    server.serializeAttachment(new URL(request.url).searchParams.get("maker"));
    return new Response(null, { status: 101, webSocket: client });
  }

  async webSocketMessage(socket, frame) {
    const { id, ...fields } = JSON.parse(frame);
    const [data] = await this.place(socket.deserializeAttachment(), [fields]);
    socket.send(JSON.stringify({ type: data === null ? "error" : "result", id, data }));
  }

  nothing() {
    return true;
  }

  /** Resolves when the quotes are committed, with null for each if the maker lacks the money. */
  place(maker, quotes) {
    const owner = maker.replaceAll("-", "");
    const rows = quotes.map((quote) => {
      const expiresAt = Date.now() + 1_000 * quote.expires_in_secs;
      // In the order of time, so that new rows are neighbours in the table.
      const id = Date.now().toString(16).padStart(12, "0") + this.#nextSuffix();
      return [id, quote.request_id.replaceAll("-", ""), owner, quote.price, expiresAt];
    });
    const done = Promise.withResolvers();
    this.#waiting.push({ rows, done });
    if (!this.#running) void this.#run();
    return done.promise;
  }

  #nextSuffix() {
    this.#placed += 1;
    return this.#placed.toString(16).padStart(20, "0");
  }

  async #run() {
    this.#running = true;
    while (this.#waiting.length > 0) {
      if (this.#lastSize > 1 || this.#waiting.length > 1)
        await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
      const group = [this.#waiting.shift()];
      let size = group[0].rows.length;
      while (this.#waiting.length > 0 && size + this.#waiting[0].rows.length <= GROUP) {
        size += this.#waiting[0].rows.length;
        group.push(this.#waiting.shift());
      }
      this.#lastSize = group.length;
      await this.#commit(group);
    }
    this.#running = false;
  }

  /** Half of a refused group at a time, until the maker who lacks the money is alone. */
  async #commit(group) {
    try {
      const list = JSON.stringify(group.flatMap(({ rows }) => rows));
      await this.env.DB.batch([this.env.DB.prepare(PLACE).bind(list)]);
      for (const { rows, done } of group)
        done.resolve(
          rows.map(([id, , , price, expiresAt]) => ({
            quote_id: id,
            price,
            status: "open",
            expires_at: expiresAt,
          })),
        );
    } catch (error) {
      if (!String(error).includes("CHECK")) throw error;
      if (group.length === 1) return group[0].done.resolve(group[0].rows.map(() => null));
      const middle = Math.ceil(group.length / 2);
      await this.#commit(group.slice(0, middle));
      await this.#commit(group.slice(middle));
    }
  }
}

/** Keys by their ids, as the service caches them. */
const people = new Map();

/** The user whose key signed the request, by the service's own code. */
async function signerOf(request, body) {
  const timestamp = request.headers.get("x-hmac-timestamp");
  const person = people.get(request.headers.get("apikey"));
  const skew = Math.abs((parseTimestampMs(timestamp) ?? 0) - Date.now());
  if (person === undefined || skew > TOLERANCE_MS) return undefined;
  const target = request.url.slice(request.url.indexOf("/", 8));
  const message = canonicalMessage({ timestamp, method: request.method, target, body });
  const signature = request.headers.get("x-hmac-signature") ?? "";
  return (await verifySignature(person.key, message, signature)) ? person.userId : undefined;
}

export default {
  async fetch(request, env) {
    const book = env.PEER.getByName("peer");
    if (request.headers.has("upgrade")) return book.fetch(request);
    const { pathname } = new URL(request.url);
    if (pathname === "/bench/people") {
      for (const { userId, apiKeyId, secret } of await request.json())
        people.set(apiKeyId, { userId, key: await importHmacKey(secret) });
      return new Response();
    }
    const body = new Uint8Array(await request.arrayBuffer());
    const maker = await signerOf(request, body);
    if (maker === undefined) return new Response(null, { status: 401 });
    if (pathname === "/rfq/quote") return Response.json({ called: await book.nothing() });
    const { quotes } = JSON.parse(new TextDecoder().decode(body));
    const placed = await book.place(maker, quotes);
    return Response.json({ results: placed.map((quote) => ({ quote })) });
  },
};
