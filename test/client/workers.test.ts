/** The client in workerd, against the whole Worker: signatures over what really arrives, pages, problems, a socket. */
import { exports } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { Client, Problem, type WebSocketLike } from "../../src/client/index.ts";
import { anyIp, BASE, newKey, newUser } from "../support/edge.ts";

const ip = anyIp();
const toWorker: typeof fetch = (input, init) => {
  const request = new Request(input, init);
  request.headers.set("cf-connecting-ip", ip);
  return exports.default.fetch(request);
};

/** A WebSocket whose other end is the Worker of this test, not an address. */
class SocketToWorker implements WebSocketLike {
  readonly #target = new EventTarget();
  #socket: WebSocket | null = null;
  constructor(url: string) {
    void this.#open(url);
  }
  async #open(url: string): Promise<void> {
    const response = await toWorker(url.replace(/^ws/, "http"), { headers: { upgrade: "websocket" } });
    const socket = response.webSocket;
    if (socket === null) return void this.#target.dispatchEvent(new Event("error"));
    this.#socket = socket;
    for (const type of ["message", "close"] as const)
      socket.addEventListener(type, (event: MessageEvent | CloseEvent) => {
        const copy = type === "message" ? new MessageEvent(type, { data: (event as MessageEvent).data }) : new CloseEvent(type);
        this.#target.dispatchEvent(copy);
      });
    socket.accept();
  }
  send(text: string): void {
    this.#socket?.send(text);
  }
  close(code?: number): void {
    this.#socket?.close(code);
  }
  addEventListener(type: string, listener: (event: object) => void): void {
    this.#target.addEventListener(type, listener);
  }
}

async function newClient(): Promise<{ client: Client; session: Client }> {
  const { userId, token } = await newUser();
  const options = { baseUrl: BASE, fetch: toWorker, webSocket: SocketToWorker };
  const key = await newKey(userId, ["read", "trade"]);
  return { client: new Client({ ...options, credential: key }), session: new Client({ ...options, credential: { accessToken: token } }) };
}

const newBook = () => ({ venue_id: "venue_one", asset_id: `0x${crypto.randomUUID().replaceAll("-", "")}` }) as const;

describe("the client in workerd", () => {
  it("signs what arrives, whatever is in the query and the body", async () => {
    const { client } = await newClient();
    expect((await client.auth.whoami()).credential).toBe("api_key");
    // Refused for what it is, so its signature held.
    const odd = client.custody.ledger({ ref_id: "it's a+b ~é/%2f?&=", reasons: ["trade", "fee"] });
    await expect(odd.all()).rejects.toMatchObject({ code: "invalid_request", errors: [{ path: "query.ref_id" }] });
    expect(await client.custody.ledger({ reasons: ["trade", "fee"], from: new Date(0), min_amount: 2n ** 70n }).all()).toEqual([]);
    const key = await client.auth.createApiKey({ label: "é ✓", scopes: ["read"] }).catch((error: unknown) => error);
    expect(key).toMatchObject({ code: "session_required" });
  });

  it("corrects its clock from the Worker's answer and signs again", async () => {
    const { userId } = await newUser();
    let sent = 0;
    const counted: typeof fetch = (input, init) => (sent++, toWorker(input, init));
    const now = () => Date.now() - 3_600_000;
    const client = new Client({ baseUrl: BASE, fetch: counted, now, credential: await newKey(userId, ["read"]) });
    await client.auth.whoami();
    await client.auth.whoami();
    expect(sent).toBe(3);
  });

  it("takes records as they came: cancels a request by the request, revokes a key by the key", async () => {
    const { client, session } = await newClient();
    const request = await client.rfq.request({ ...newBook(), amount: 2n ** 70n, side: "Bid" });
    expect(request.amount).toBe(2n ** 70n);
    expect(await client.rfq.openRequests(request).all()).toMatchObject([{ request_id: request.request_id }]);
    expect(await client.rfq.cancelRequest(request)).toEqual({ request_id: request.request_id, status: "cancelled" });
    const key = await session.auth.createApiKey({ label: "x", scopes: ["read"] });
    expect((await session.auth.revokeApiKey(key)).revoked_at).not.toBeNull();
    const refused: unknown = await client.rfq.accept({ quote_id: request.request_id }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(Problem);
    expect(refused).toMatchObject({ code: "quote_unknown", status: 404 });
  });

  it("walks pages with an item more than a page holds", async () => {
    const { client } = await newClient();
    const book = newBook();
    const made: string[] = [];
    for (let index = 0; index < 5; index++) made.push((await client.rfq.request({ ...book, amount: 1n, side: "Ask" })).request_id);
    const walked: string[] = [];
    for await (const { request_id } of client.rfq.openRequests({ ...book, limit: 2 })) walked.push(request_id);
    expect(walked).toEqual(made.toReversed());
  });

  it("the same idempotency key makes one request of two", async () => {
    const { client } = await newClient();
    const terms = { ...newBook(), amount: 1n, side: "Bid" } as const;
    const [one, two] = [await client.rfq.request(terms, { idempotencyKey: "k" }), await client.rfq.request(terms, { idempotencyKey: "k" })];
    expect(two).toEqual(one);
  });

  it("reads a book over a socket with a ticket of its own, and quotes over it", async () => {
    const [taker, maker] = [await newClient(), await newClient()];
    const book = newBook();
    const stream = maker.client.bookStream(book);
    const types: string[] = [];
    await stream.ready();
    await taker.client.rfq.request({ ...book, amount: 1_000_000n, side: "Bid" });
    for await (const message of stream) {
      types.push(message.type);
      if (message.type !== "request.opened") continue;
      expect(message.data.amount).toBe(1_000_000n);
      const refused: unknown = await stream.quote({ ...message.data, price: 650_000 }).catch((error: unknown) => error);
      expect(refused).toMatchObject({ code: "insufficient_funds", status: 409 });
      break;
    }
    expect(types).toEqual(["hello", "snapshot", "request.opened"]);
  });
});
