/**
 * Uses the packed client from a plain Node program. test/client/package.node.test.ts runs it with
 * every Node it finds. Node 20 has no WebSocket, so it passes the class of the package ws.
 */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import { Client, decodeEvent, NoAnswer, Problem, sign } from "@rfq-custody/client";
import { verifyWebhook } from "@rfq-custody/client/webhooks";
import { Webhook } from "standardwebhooks";
import WsOfPackage, { WebSocketServer } from "ws";

const SECRET = "kq3Vt0m1y8Zb5cXwR7uN2pQeLsHdJfGaTiOvYxMzC4E";
const targets = [];

/** The service rejects this stream: the upgrade fails, and a GET returns the reason. */
const isRejected = (url) => url.startsWith("/rfq/stream");

function respond(request, body) {
  if (request.url.startsWith("/rfq/request")) return [403, { code: "scope_missing" }];
  if (request.url === "/auth/ws-ticket/signed")
    return [201, { ticket: `ticket-${targets.length}` }];
  if (request.url === "/rfq/accept") return [409, { code: "insufficient_funds", available: "0x1" }];
  if (request.url.startsWith("/rfq/get-matches")) {
    const last = new URL(request.url, "http://x").searchParams.get("last_cursor");
    return [
      200,
      last === null
        ? { items: [{ amount: "0x1" }], next_cursor: "1" }
        : { items: [{ amount: "0x2" }], next_cursor: null },
    ];
  }
  return [200, { balance: "0xffffffffffffffff", pending_balance: "0x0", body }];
}

// An event is the same from a webhook, a row of the event log and a frame.
const event = { type: "deposit.credited", stream: "account:1", seq: 7, data: { amount: "0x10" } };
const text = JSON.stringify(event);
const signedAt = new Date();
const headers = {
  "Webhook-Id": "account:1:7",
  "webhook-timestamp": String(Math.floor(signedAt.getTime() / 1_000)),
  "webhook-signature": new Webhook(SECRET).sign("account:1:7", signedAt, text),
};
const expected = { ...event, data: { amount: 16n } };
assert.deepEqual(verifyWebhook(SECRET, text, headers), expected);
assert.deepEqual(verifyWebhook(SECRET, text, new Headers(headers)), expected);
const bytes = new TextEncoder().encode(text);
assert.deepEqual(verifyWebhook(SECRET, bytes, headers), expected);
assert.deepEqual([event, text, bytes].map(decodeEvent), [expected, expected, expected]);
assert.throws(() => verifyWebhook(SECRET, `${text} `, headers), /signature/);
for (const wrong of ["", "5", "null", "[]", {}, null, undefined, { ...event, stream: undefined }])
  assert.throws(() => decodeEvent(wrong), TypeError);

const server = createServer(async (request, response) => {
  let body = "";
  for await (const chunk of request) body += chunk;
  const message = `${request.headers["x-hmac-timestamp"]}\n${request.method}\n${request.url}\n${body}`;
  targets.push(request.url);
  if (targets.length === 1) return request.socket.destroy();
  const signed =
    createHmac("sha256", SECRET).update(message).digest("base64") ===
    request.headers["x-hmac-signature"];
  const [status, data] = isRejected(request.url)
    ? [426, { code: "websocket_required" }]
    : signed
      ? respond(request, body)
      : [401, { code: "signature_invalid" }];
  response
    .writeHead(status, {
      "content-type": status < 400 ? "application/json" : "application/problem+json",
      "x-request-id": "id-1",
    })
    .end(JSON.stringify(data));
});
const sockets = new WebSocketServer({
  server,
  verifyClient: ({ req }, done) => done(!isRejected(req.url), 403),
});
const sinces = [];
sockets.on("connection", (socket, request) => {
  const since = new URL(request.url, "http://x").searchParams.get("since");
  sinces.push(since);
  const send = (type, seq, data = {}) =>
    socket.send(JSON.stringify({ type, stream: "account", seq, at: "", data }));
  send("hello", 7);
  if (since === null) {
    send("deposit.credited", 8, { amount: "0x5" });
    return socket.terminate();
  }
  send("deposit.credited", 8, { amount: "0x5" });
  send("deposit.credited", 9, { amount: "0x6" });
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const baseUrl = `http://127.0.0.1:${server.address().port}`;
const credential = { apiKeyId: "key", secret: SECRET };
const client = new Client({ baseUrl, credential, webSocket: WsOfPackage });

assert.equal((await client.custody.usdcBalance()).balance, 2n ** 64n - 1n);
assert.equal(targets.length, 2, "repeats a read after a lost response");
const rejected = await client.rfq.accept({ quote_id: "q", price: 1 }).catch((error) => error);
assert.ok(
  rejected instanceof Problem &&
    rejected.code === "insufficient_funds" &&
    rejected.requestId === "id-1",
);
assert.deepEqual(
  (await client.rfq.matches().all()).map(({ amount }) => amount),
  [1n, 2n],
);
const stream = client.accountStream();
const amounts = [];
for await (const message of stream) {
  if (message.type === "deposit.credited") amounts.push(message.data.amount);
  if (amounts.length === 2) break;
}
assert.deepEqual(amounts, [5n, 6n], "each message once, across a reconnection");
assert.deepEqual(sinces, [null, "8"]);
for (const webSocket of [WsOfPackage, ...(typeof WebSocket === "undefined" ? [] : [WebSocket])]) {
  const venueStream = new Client({ baseUrl, credential, webSocket }).venueStream({
    venue_id: "venue_one",
  });
  await assert.rejects(
    venueStream.ready(),
    (error) => error instanceof Problem && error.code === "scope_missing",
  );
}
assert.match(
  await sign({ secret: SECRET, timestampMs: 1, method: "GET", pathAndQuery: "/" }),
  /^[A-Za-z0-9+/]{43}=$/,
);
if (typeof WebSocket === "undefined")
  await assert.rejects(
    new Client({ baseUrl, credential }).accountStream().ready(),
    /Pass a class as `webSocket`/,
  );

sockets.close();
server.closeAllConnections();
await new Promise((resolve) => server.close(resolve));
await assert.rejects(new Client({ baseUrl, credential, attempts: 1 }).health(), NoAnswer);
console.log(`ok ${process.version}`);
