/** The client in workerd against the whole Worker: signatures, pages, problems and sockets. */
import { createExecutionContext } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import {
  type Balance,
  Client,
  type MarketAsset,
  type NoAnswer,
  Problem,
  type Scope,
  type Stream,
  type WebSocketLike,
} from "../../packages/client/src/index.ts";
import { USDC as USDC_KEY } from "../../src/assets/asset.ts";
import { config } from "../../src/platform/config.ts";
import { anyIp, app, BASE } from "../support/http.ts";
import {
  endWithdrawal,
  fund,
  newAsset,
  queueWithdrawal,
  type TestAsset,
} from "../support/ledger.ts";
import { enrol, freshCode } from "../support/totp.ts";
import { newKey, newUser, newUserWithPassword, PASSWORD } from "../support/users.ts";

const ip = anyIp();
const toWorker: typeof fetch = (input, init) => {
  const request = new Request(input, init);
  request.headers.set("cf-connecting-ip", ip);
  return exports.default.fetch(request);
};

/**
 * A WebSocket connected to the Worker of this test. Like every WebSocket, it does not report why an
 * upgrade was rejected.
 */
class SocketToWorker implements WebSocketLike {
  readonly #target = new EventTarget();
  #socket: WebSocket | null = null;
  constructor(url: string, reach: typeof fetch = toWorker) {
    void this.#open(url, reach);
  }
  async #open(url: string, reach: typeof fetch): Promise<void> {
    const response = await reach(url.replace(/^ws/, "http"), { headers: { upgrade: "websocket" } });
    const socket = response.webSocket;
    if (socket === null) return void this.#target.dispatchEvent(new Event("error"));
    this.#socket = socket;
    for (const type of ["message", "close"] as const)
      socket.addEventListener(type, (event: MessageEvent | CloseEvent) => {
        const copy =
          type === "message"
            ? new MessageEvent(type, { data: (event as MessageEvent).data })
            : new CloseEvent(type);
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
  const user = await newUser();
  const options = { baseUrl: BASE, fetch: toWorker, webSocket: SocketToWorker };
  const key = await newKey(user, ["read", "trade"]);
  return {
    client: new Client({ ...options, credential: key }),
    session: new Client({ ...options, credential: { accessToken: user.token } }),
  };
}

/** The venue and asset id of a book that no other test uses. */
function newBook(): MarketAsset {
  const { venue_id, asset_id } = newAsset();
  return { venue_id, asset_id };
}

describe("the client in workerd", () => {
  it("signs any query and body as they arrive", async () => {
    const { client } = await newClient();
    expect((await client.auth.whoami()).credential).toBe("api_key");
    // The service checks signatures first, so this error means that the signature was valid.
    expect(await client.custody.statement({ reasons: ["trade"] })).toMatch(
      /^entry_id,.*\r\n# end,0\r\n$/,
    );
    const odd = client.custody.ledger({ ref_id: "it's a+b ~é/%2f?&=", reasons: ["trade", "fee"] });
    await expect(odd.all()).rejects.toMatchObject({
      code: "invalid_request",
      errors: [{ path: "query.ref_id" }],
    });
    expect(
      await client.custody
        .ledger({ reasons: ["trade", "fee"], from: new Date(0), min_amount: 2n ** 70n })
        .all(),
    ).toEqual([]);
    const key = await client.auth
      .createApiKey({ label: "é ✓", scopes: ["read"] })
      .catch((error: unknown) => error);
    expect(key).toMatchObject({ code: "session_required" });
  });

  it("corrects its clock after a rejected timestamp", async () => {
    const { userId } = await newUser();
    let sent = 0;
    const counted: typeof fetch = (input, init) => (sent++, toWorker(input, init));
    const now = () => Date.now() - 3_600_000;
    const client = new Client({
      baseUrl: BASE,
      fetch: counted,
      now,
      credential: await newKey({ userId }, ["read"]),
    });
    await client.auth.whoami();
    await client.auth.whoami();
    expect(sent).toBe(3);
  });

  it("accepts whole records as arguments", async () => {
    const { client, session } = await newClient();
    const request = await client.rfq.request({ ...newBook(), amount: 2n ** 70n, side: "Bid" });
    expect(request.amount).toBe(2n ** 70n);
    expect(await client.rfq.openRequests(request).all()).toMatchObject([
      { request_id: request.request_id },
    ]);
    expect(await client.rfq.cancelRequest(request)).toEqual({
      request_id: request.request_id,
      status: "cancelled",
    });
    const key = await session.auth.createApiKey({ label: "x", scopes: ["read"] });
    expect((await session.auth.revokeApiKey(key)).revoked_at).not.toBeNull();
    const rejection: unknown = await client.rfq
      .accept({ quote_id: request.request_id })
      .catch((error: unknown) => error);
    expect(rejection).toBeInstanceOf(Problem);
    expect(rejection).toMatchObject({ code: "quote_unknown", status: 404 });
  });

  it("reads all pages", async () => {
    const { client } = await newClient();
    const book = newBook();
    const made: string[] = [];
    for (let index = 0; index < 5; index++)
      made.push((await client.rfq.request({ ...book, amount: 1n, side: "Ask" })).request_id);
    const listed: string[] = [];
    for await (const { request_id } of client.rfq.openRequests({ ...book, limit: 2 }))
      listed.push(request_id);
    expect(listed).toEqual(made.toReversed());
  });

  it("opens one request for two calls with one idempotency key", async () => {
    const { client } = await newClient();
    const terms = { ...newBook(), amount: 1n, side: "Bid" } as const;
    const [one, two] = [
      await client.rfq.request(terms, { idempotencyKey: "k" }),
      await client.rfq.request(terms, { idempotencyKey: "k" }),
    ];
    expect(two).toEqual(one);
  });

  it("reads a book stream and quotes over it", async () => {
    const [requester, maker] = [await newClient(), await newClient()];
    const book = newBook();
    const stream = maker.client.bookStream(book);
    const types: string[] = [];
    await stream.ready();
    await requester.client.rfq.request({ ...book, amount: 1_000_000n, side: "Bid" });
    for await (const message of stream) {
      types.push(message.type);
      if (message.type !== "request.opened") continue;
      expect(message.data.amount).toBe(1_000_000n);
      const rejection: unknown = await stream
        .quote({ ...message.data, price: 650_000 }, { maxAgeMs: 30_000 })
        .catch((error: unknown) => error);
      expect(rejection).toMatchObject({ code: "insufficient_funds", status: 409 });
      break;
    }
    expect(types).toEqual(["hello", "snapshot", "request.opened"]);
  });

  it("quotes over a stream whose hello was late", async () => {
    const [requester, maker] = [await newClient(), await newUser()];
    const request = await requester.client.rfq.request({ ...newBook(), amount: 10n, side: "Bid" });
    class LateHello extends SocketToWorker {
      override addEventListener(type: string, listener: (event: { data?: unknown }) => void): void {
        super.addEventListener(type, (event: { data?: unknown }) => {
          const late = new Date(Date.now() - 60_000).toISOString();
          const data = String(event.data).replace(/(?<="server_time":")[^"]+/, late);
          listener(type === "message" ? { data } : event);
        });
      }
    }
    const credential = await newKey(maker, ["read", "trade"]);
    const options = { baseUrl: BASE, fetch: toWorker, webSocket: LateHello, credential };
    const stream = new Client(options).bookStream(request);
    await stream.ready();
    await expect(
      stream.quote({ ...request, price: 650_000 }, { maxAgeMs: 30_000 }),
    ).rejects.toMatchObject({ code: "insufficient_funds" });
    stream.close();
  });
});

it("a credential of an account with TOTP asks for a code and logs in", async () => {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  const { email } = user;
  const asked = vi.fn<() => Promise<string>>(() => freshCode(user, secret));
  const login = { email, password: PASSWORD };
  const withCode = new Client({
    baseUrl: BASE,
    fetch: toWorker,
    credential: { ...login, totpCode: asked },
  });
  await withCode.custody.usdcBalance();
  await withCode.custody.usdcBalance();
  expect(asked).toHaveBeenCalledOnce();
  const without = new Client({ baseUrl: BASE, fetch: toWorker, credential: login });
  await expect(without.custody.usdcBalance()).rejects.toMatchObject({ code: "totp_required" });
  await expect(Client.login({ ...login, baseUrl: BASE, fetch: toWorker })).rejects.toMatchObject({
    code: "totp_required",
  });
  const totp_code = await freshCode(user, secret);
  const session = await Client.login({ ...login, totp_code, baseUrl: BASE, fetch: toWorker });
  expect((await session.custody.usdcBalance()).balance).toBe(0n);
});

describe("live maps", () => {
  const USDC = 10_000_000n;

  /** A funded user with both maps. `agrees` waits until they equal what the service reports. */
  async function newTrader(asset: TestAsset) {
    const user = await newUser({ usdc: USDC, [asset.key]: USDC });
    const credential = await newKey(user, ["read", "trade"]);
    const client = new Client({
      baseUrl: BASE,
      fetch: toWorker,
      webSocket: SocketToWorker,
      credential,
    });
    const [orders, balances] = [client.orders(), client.balances()];
    await Promise.all([orders.ready(), balances.ready()]);
    const sums = (list: Balance[]) =>
      list.map((each) => `${each.asset_id} ${each.balance} ${each.pending_balance}`).toSorted();
    const agrees = async () => {
      const [requests, quotes, held] = await Promise.all([
        client.rfq.myRequests({ status: "open" }).all(),
        client.rfq.myQuotes({ status: "open" }).all(),
        client.custody.balances().all(),
      ]);
      const ids = [
        ...requests.map(({ request_id }) => request_id),
        ...quotes.map(({ quote_id }) => quote_id),
      ];
      await vi.waitFor(
        () => {
          const open = [...orders].map((own) =>
            "quote_id" in own ? own.quote_id : own.request_id,
          );
          expect(open.toSorted()).toEqual(ids.toSorted());
          expect(sums([...balances])).toEqual(sums(held));
        },
        { timeout: 5_000 },
      );
      return ids.length;
    };
    return { user, client, orders, balances, agrees };
  }

  it("share one socket", async () => {
    const { token: accessToken } = await newUser();
    let sockets = 0;
    class Counted extends SocketToWorker {
      constructor(url: string) {
        super(url);
        sockets += 1;
      }
    }
    const credential = { accessToken };
    const settings = { baseUrl: BASE, fetch: toWorker, webSocket: Counted, credential };
    const client = new Client(settings);
    const maps = [client.orders(), client.balances()];
    await Promise.all(maps.map((map) => map.ready()));
    expect(sockets).toBe(1);
    for (const map of maps) map.close();
  });

  it("agree with the service after every kind of change", async () => {
    const asset = newAsset();
    const [requester, maker] = [await newTrader(asset), await newTrader(asset)];
    const both = async () => [await requester.agrees(), await maker.agrees()];
    const { venue_id, asset_id } = asset;
    const opened = await requester.client.rfq.request({
      venue_id,
      asset_id,
      amount: 1_000_000n,
      side: "TwoWay",
    });
    const slow = { maxAgeMs: 30_000 };
    const { request_id } = opened;
    const rfq = maker.client.rfq;
    const sell = await rfq.quote({ request_id, side: "Bid", price: 650_000 }, slow);
    await rfq.quote({ request_id, side: "Ask", price: 550_000 }, slow);
    expect(await both()).toEqual([1, 2]);
    expect(maker.orders.get(sell.quote_id)).toEqual(sell);
    const better = await rfq.quote(
      { request_id, side: "Bid", price: 640_000, replaces: sell.quote_id },
      slow,
    );
    expect(await both()).toEqual([1, 2]);
    expect(maker.orders.get(sell.quote_id)).toBeUndefined();
    await requester.client.rfq.accept({ quote_id: better.quote_id });
    expect(await both()).toEqual([0, 0]);
    expect(maker.balances.get(asset)?.balance).toBe(USDC - 1_000_000n);
    expect(requester.balances.get(null)?.balance).toBe(USDC - 640_000n);

    await fund(maker.user.userId, USDC_KEY, 7n);
    const failed = await queueWithdrawal(maker.user, USDC_KEY, 5n);
    await queueWithdrawal(maker.user, asset.key, 3n);
    await endWithdrawal(failed, "Failed");
    const next = await requester.client.rfq.request({
      venue_id,
      asset_id,
      amount: 1_000_000n,
      side: "Ask",
    });
    const buy = await rfq.quote({ request_id: next.request_id, price: 500_000 }, slow);
    expect(await both()).toEqual([1, 1]);
    await rfq.cancelQuote(buy);
    await requester.client.rfq.cancelRequest(next);
    expect(await both()).toEqual([0, 0]);
    for (const { orders, balances } of [requester, maker]) {
      orders.close();
      balances.close();
    }
  });

  it("end with the reason for a rejected stream", async () => {
    const { client } = await clientBy(toWorker, ["trade"]);
    const orders = client.orders();
    await expect(orders.ready()).rejects.toMatchObject({ code: "scope_missing" });
    await expect(orders.ended()).rejects.toMatchObject({ code: "scope_missing" });
  });
});

type Disconnect = { attempt: number; error: Problem | NoAnswer | null };

/** A client whose requests and upgrades go through `reach`, and the targets of both. */
async function clientBy(
  reach: typeof fetch,
  scopes: Scope[],
): Promise<{ client: Client; targets: string[] }> {
  const targets: string[] = [];
  const recording: typeof fetch = (input, init) => {
    const { pathname, search } = new URL(new Request(input).url);
    targets.push(pathname + search);
    return reach(input, init);
  };
  class RecordingSocket extends SocketToWorker {
    constructor(url: string) {
      super(url, recording);
    }
  }
  const { userId } = await newUser();
  const credential = await newKey({ userId }, scopes);
  return {
    client: new Client({ baseUrl: BASE, fetch: recording, webSocket: RecordingSocket, credential }),
    targets,
  };
}

/** The Worker with other settings, except for tickets, so that only the upgrade can fail. */
function unlessTicket(change: () => object): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init);
    if (request.method === "POST") return toWorker(request);
    return app.hono.fetch(request, { ...env, ...change() }, createExecutionContext());
  };
}

class DownDatabase {
  prepare(): never {
    throw new Error("D1_ERROR: the database is down");
  }
  withSession(): this {
    return this;
  }
}

const ticketsIn = (targets: string[]) =>
  targets.flatMap((target) => /ticket=([^&]+)/.exec(target)?.[1] ?? []);

/** The problem that ends the stream, thrown by `ready` and by the loop. */
async function endOf(stream: Stream): Promise<unknown> {
  const thrown = await stream.ready().catch((error: unknown) => error);
  await expect(stream[Symbol.asyncIterator]().next()).rejects.toBe(thrown);
  expect(thrown).toBeInstanceOf(Problem);
  return thrown;
}

describe("a stream whose upgrade is rejected", () => {
  it("ends with scope_missing for a key without the scope read", async () => {
    const { client, targets } = await clientBy(toWorker, ["trade"]);
    const book = newBook();
    for (const stream of [
      client.bookStream(book),
      client.venueStream(book),
      client.accountStream(),
    ]) {
      targets.length = 0;
      expect(await endOf(stream)).toMatchObject({
        code: "scope_missing",
        status: 403,
        body: { required_scope: "read" },
      });
      // No ticket is issued that could open nothing. The client reads the service's clock once.
      expect(ticketsIn(targets)).toHaveLength(0);
      expect(targets.filter((target) => target !== "/time")).toHaveLength(1);
    }
  });

  it("ends with invalid_request for an invalid asset id", async () => {
    const { client } = await clientBy(toWorker, ["read"]);
    const ended = await endOf(client.bookStream({ venue_id: "venue_one", asset_id: "banana" }));
    expect(ended).toMatchObject({
      code: "invalid_request",
      status: 400,
      errors: [{ path: "query.asset_id" }],
    });
  });

  it("ends with route_unknown where streams are not served", async () => {
    const elsewhere: typeof fetch = (input, init) => {
      const { url } = new Request(input);
      return toWorker(url.replace("/account/stream", "/elsewhere"), init);
    };
    const { client } = await clientBy(elsewhere, ["read"]);
    expect(await endOf(client.accountStream())).toMatchObject({
      code: "route_unknown",
      status: 404,
    });
  });

  it("honours Retry-After during an outage, then connects", async () => {
    let down = true;
    const reach = unlessTicket(() => (down ? { DB: new DownDatabase() } : {}));
    const { client, targets } = await clientBy(reach, ["read"]);
    const disconnects: Disconnect[] = [];
    let disconnectedAt = 0;
    const onDisconnect = (event: Disconnect) => {
      disconnects.push(event);
      disconnectedAt = Date.now();
      down = false;
    };
    const stream = client.accountStream({ onDisconnect });
    await stream.ready();
    expect(disconnects).toMatchObject([
      { attempt: 1, error: { code: "unavailable", retryAfterSecs: 1 } },
    ]);
    expect(Date.now() - disconnectedAt).toBeGreaterThanOrEqual(995);
    expect(new Set(ticketsIn(targets)).size).toBe(2);
    expect(ticketsIn(targets)).toHaveLength(2);
    stream.close();
  });

  it("reports rate_limited with its Retry-After to onDisconnect", async () => {
    const limits = { RATE_LIMITS: "on", RATE_ADDRESS: { limit: async () => ({ success: false }) } };
    const { client } = await clientBy(
      unlessTicket(() => limits),
      ["read"],
    );
    const disconnects = await new Promise<Disconnect>((onDisconnect) => {
      const stream = client.accountStream({
        onDisconnect: (event) => (stream.close(), onDisconnect(event)),
      });
      stream.ready().catch(() => {});
    });
    expect(disconnects).toMatchObject({
      attempt: 1,
      error: { code: "rate_limited", status: 429, retryAfterSecs: 10 },
    });
  });

  it("retries over the socket limit until a socket closes", async () => {
    const { client, targets } = await clientBy(toWorker, ["read"]);
    const limit = config(env).STREAM_SOCKETS_PER_USER;
    const others = Array.from({ length: limit }, () => client.accountStream());
    await Promise.all(others.map((stream) => stream.ready()));
    const disconnects: Disconnect[] = [];
    const stream = client.accountStream({
      onDisconnect: (event) => {
        disconnects.push(event);
        if (disconnects.length === 2) others[0]?.close();
      },
    });
    await stream.ready();
    expect(disconnects.slice(0, 2)).toMatchObject([
      { attempt: 1, error: null },
      { attempt: 2, error: null },
    ]);
    expect(ticketsIn(targets)).toHaveLength(new Set(ticketsIn(targets)).size);
    for (const each of [...others, stream]) each.close();
  }, 20_000);
});
