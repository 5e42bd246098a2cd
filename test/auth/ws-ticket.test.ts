import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { revokeApiKey } from "../../src/auth/revoke-key.ts";
import { freezeUser } from "../../src/auth/freeze-user.ts";
import { consumeTicket, issueTicket, trimTickets } from "../../src/auth/ws-ticket.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, readUuid, sql, uuid } from "../../src/platform/sql.ts";
import { config } from "../../src/platform/config.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { apiOf, codeOf, send, settings } from "../support/http.ts";
import { connect } from "../support/sockets.ts";
import { newKey, newUser, type TestKey, type TestUser } from "../support/users.ts";

async function ticketOf(user: TestUser): Promise<string> {
  return (await apiOf(user).post("/auth/ws-ticket")).json["ticket"];
}

async function signedTicket(key: TestKey): Promise<string> {
  return (await apiOf(key).post("/auth/ws-ticket/signed")).json["ticket"];
}

const use = (ticket: string, stream: string, clientIp?: string) =>
  consumeTicket(env.DB, config(env), { ticket, stream, clientIp });

async function rejectionOf(ticket: string, clientIp?: string): Promise<string | undefined> {
  try {
    await use(ticket, "account:test", clientIp);
    return undefined;
  } catch (error) {
    if (error instanceof Problem) return error.data.code;
    throw error;
  }
}

it("issues tickets with read for sessions and the key's scopes for keys", async () => {
  const user = await newUser();
  const { status, json } = await apiOf(user).post("/auth/ws-ticket");
  expect([status, json["scopes"]]).toEqual([201, ["read"]]);
  expect(await use(json["ticket"], "account:x")).toMatchObject({
    userId: user.userId,
    scopes: ["read"],
    credential: { kind: "session" },
  });

  const key = await newKey(user, ["read", "trade"]);
  const used = await use(await signedTicket(key), "account:x");
  expect(used).toMatchObject({
    userId: user.userId,
    scopes: ["read", "trade"],
    credential: { kind: "api_key", apiKeyId: key.apiKeyId },
  });
  const opener = sql`SELECT hex(opener) AS id FROM opened_streams WHERE user_id = ${uuid(user.userId)}`;
  expect((await all<{ id: string }>(env.DB, opener)).map(({ id }) => readUuid(id))).toEqual(
    expect.arrayContaining([user.userId, key.apiKeyId]),
  );
});

it("rejects made-up tickets without a read of D1", async () => {
  const ticket = await ticketOf(await newUser());
  const noDatabase = { env: { DB: null }, headers: { upgrade: "websocket" } };
  const code = async (text: string) =>
    codeOf(await send(`/account/stream?ticket=${text}`, noDatabase));
  const random = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
  const changed = `${ticket.startsWith("A") ? "B" : "A"}${ticket.slice(1)}`;
  for (const text of [random, changed, "x", ticket.slice(0, -2)])
    expect(await code(text)).toBe("401 ticket_invalid");
  expect(await code(ticket)).toBe("500 internal");
});

it("accepts one of 50 concurrent upgrades with the same ticket", async () => {
  const ticket = await signedTicket(await newKey(await newUser(), ["read"]));
  const outcomes = await Promise.all(Array.from({ length: 50 }, () => rejectionOf(ticket)));
  expect(outcomes.filter((code) => code === undefined)).toHaveLength(1);
  expect(outcomes.filter((code) => code === "ticket_invalid")).toHaveLength(49);
});

it("stores tickets hashed and expires them after 30 seconds", async () => {
  const user = await newUser();
  const issuedAt = Date.now();
  const { json: issued } = await apiOf(user).post("/auth/ws-ticket");
  expect(Math.abs(Date.parse(issued["expires_at"]) - issuedAt - 30_000)).toBeLessThan(2_000);
  const rows = await all<Record<string, unknown>>(
    env.DB,
    sql`SELECT *, hex(ticket_hash) AS hash FROM ws_tickets WHERE user_id = ${uuid(user.userId)}`,
  );
  expect(JSON.stringify(rows)).not.toContain(issued["ticket"]);
  expect(rows[0]?.["hash"]).toMatch(/^[0-9A-F]{64}$/);
  await all(
    env.DB,
    sql`UPDATE ws_tickets SET expires_at = ${Date.now() - 1} WHERE user_id = ${uuid(user.userId)}`,
  );
  expect(await rejectionOf(issued["ticket"])).toBe("ticket_invalid");
});

it("is not issued to a key that could open nothing with it", async () => {
  const key = apiOf(await newKey(await newUser(), ["trade", "withdraw"]));
  expect(await key.post("/auth/ws-ticket/signed")).toMatchObject({
    status: 403,
    json: { code: "scope_missing", required_scope: "read" },
  });
});

it("checks key and user in D1 when a ticket is used", async () => {
  const user = await newUser();
  const revoked = await newKey(user, ["read"]);
  const ofRevoked = await signedTicket(revoked);
  await revokeApiKey(env.DB, { apiKeyId: revoked.apiKeyId, operator: "test" });
  expect(await rejectionOf(ofRevoked)).toBe("api_key_revoked");

  const expiring = await newKey(user, ["read"]);
  const ofExpired = await signedTicket(expiring);
  await all(
    env.DB,
    sql`UPDATE api_keys SET expires_at = 1 WHERE api_key_id = ${uuid(expiring.apiKeyId)}`,
  );
  expect(await rejectionOf(ofExpired)).toBe("api_key_expired");

  const listed = await newKey(user, ["read"], { allowedIps: ["10.0.0.0/8"] });
  expect(await rejectionOf(await signedTicket(listed), "192.0.2.1")).toBe("ip_not_allowed");
  expect(await rejectionOf(await signedTicket(listed), "10.1.2.3")).toBeUndefined();

  const { actor } = await newKey(user, ["trade"]);
  const unread = await issueTicket(env.DB, settings(), { actor, scopes: ["trade"] });
  expect(await rejectionOf(unread.ticket)).toBe("scope_missing");

  const ticket = await ticketOf(user);
  const ofFrozen = await signedTicket(await newKey(user, ["read"], { allowedIps: ["10.0.0.0/8"] }));
  await freezeUser(env.DB, { userId: user.userId, operator: "test" });
  expect(await rejectionOf(ofFrozen, "192.0.2.1")).toBe("account_frozen");
  expect(await rejectionOf(ticket)).toBe("account_frozen");
});

it("rejects the ticket of an ended session", async () => {
  const user = await newUser();
  const ticket = await ticketOf(user);
  await apiOf(user).delete("/auth/sessions");
  expect(await rejectionOf(ticket)).toBe("session_invalid");
});

it("remembers the stream of a used ticket but not the ticket", async () => {
  const user = await newUser();
  const key = await newKey(user, ["read"]);
  await use(await signedTicket(key), "account:kept");
  await signedTicket(key);
  await all(
    env.DB,
    sql`UPDATE ws_tickets SET expires_at = expires_at - 3600000
      WHERE user_id = ${uuid(user.userId)}`,
  );
  await trimTickets(env.DB);
  expect(await openedStreams(user)).toEqual(["account:kept"]);
  expect(await ticketsOf(user)).toEqual([]);
});

it("keeps one row per open stream, however many sockets were opened", async () => {
  const user = await newUser();
  await all(
    env.DB,
    sql`INSERT INTO stream_subscribers (name, token, since) VALUES ('book:open', 'token', 0)`,
  );
  for (const stream of ["book:open", "book:closed", "book:open"])
    await use(await ticketOf(user), stream);
  expect(await openedStreams(user)).toHaveLength(2);
  const other = await newUser();
  await use(await ticketOf(other), "book:closed");
  await all(env.DB, sql`UPDATE opened_streams SET opened_at = opened_at - 120000`);
  await use(await ticketOf(user), "book:new");
  expect(await openedStreams(user)).toEqual(["book:new", "book:open"]);
  expect(await openedStreams(other)).toEqual(["book:closed"]);
});

it("leaves the ticket valid when the socket limit refuses its upgrade", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  const { STREAM_SOCKETS_PER_USER: limit } = config(env);
  const open = await Promise.all(Array.from({ length: limit }, () => connect(user, stream)));
  const ticket = await ticketOf(user);
  const upgrade = () =>
    send(`/account/stream?ticket=${ticket}`, { headers: { upgrade: "websocket" } });
  const refused = await upgrade();
  expect(await refused.json()).toMatchObject({ status: 429, code: "socket_limit" });
  open[0]?.socket.close(1000);
  await open[0]?.untilClosed();
  expect((await upgrade()).status).toBe(101);
  expect((await upgrade()).status).toBe(401);
});

it("uses up the ticket of a user who keeps being refused", async () => {
  const user = await newUser();
  const stream = accountStream(user.userId);
  const { STREAM_SOCKETS_PER_USER: limit } = config(env);
  await Promise.all(Array.from({ length: limit }, () => connect(user, stream)));
  const counts = new Map<string, number>();
  const count = async ({ key }: { key: string }) => {
    counts.set(key, (counts.get(key) ?? 0) + 1);
    return { success: (counts.get(key) ?? 0) <= 3 };
  };
  const [free, limited] = [{ limit: async () => ({ success: true }) }, { limit: count }];
  const on = {
    RATE_LIMITS: "on",
    RATE_ADDRESS: free,
    RATE_ADDRESS_BLOCK: free,
    RATE_REFUSED: limited,
  };
  const ticket = await ticketOf(user);
  const outcomes: string[] = [];
  // Each book leaves a row of opened_streams for a minute.
  for (let n = 1; n <= 6; n++) {
    const target = `/rfq/stream?ticket=${ticket}&venue_id=venue_one&asset_id=0x${n}`;
    outcomes.push(await codeOf(await send(target, { headers: { upgrade: "websocket" }, env: on })));
  }
  expect(outcomes).toEqual([
    "429 socket_limit",
    "429 socket_limit",
    "429 socket_limit",
    "429 rate_limited",
    "401 ticket_invalid",
    "401 ticket_invalid",
  ]);
  expect(await openedStreams(user)).toHaveLength(4);
});

function ticketsOf(user: TestUser): Promise<unknown[]> {
  return all(env.DB, sql`SELECT 1 FROM ws_tickets WHERE user_id = ${uuid(user.userId)}`);
}

async function openedStreams(user: TestUser): Promise<string[]> {
  const rows = await all<{ stream: string }>(
    env.DB,
    sql`SELECT DISTINCT stream FROM opened_streams WHERE user_id = ${uuid(user.userId)}`,
  );
  return rows.map(({ stream }) => stream);
}
