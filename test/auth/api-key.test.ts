import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { actorRejection, mayWrite } from "../../src/auth/may-write.ts";
import { trimApiKeys } from "../../src/auth/api-key.ts";
import { TASKS } from "../../src/cron.ts";
import { noticeKeys } from "../../src/auth/notice-keys.ts";
import { MAX_KEYS_PER_USER, mintApiKey } from "../../src/auth/mint-key.ts";
import { revokeApiKey } from "../../src/auth/revoke-key.ts";
import { endSessions } from "../../src/auth/end-sessions.ts";
import { issueSession, readSession } from "../../src/auth/session.ts";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { rewrapKeys } from "../../src/auth/rewrap-keys.ts";
import { openSecret, sealSecret } from "../../src/auth/secret-box.ts";
import type { Scope, SessionActor } from "../../src/platform/actor.ts";
import { config } from "../../src/platform/config.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { connect } from "../support/sockets.ts";
import { NOW } from "../../src/platform/commit.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, first, raw, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, codeOf, settings, type Signer } from "../support/http.ts";
import { rowsReadBy } from "../support/counting-database.ts";
import {
  newKey,
  newUser,
  newUserWithPassword,
  PASSWORD,
  setActiveFrom,
  type TestUser,
} from "../support/users.ts";

const KEYS = "/auth/api-keys";
const NEW_KEY = { label: "bot", scopes: ["read", "trade"] };
const DAY_MS = 86_400_000;
const WHOAMI = "/auth/whoami";

const SESSION_KEY = {
  label: "bot",
  scopes: ["read"],
  expiresAt: null,
  allowedIps: null,
  limits: null,
  requireIdempotency: false,
} as const;

async function problemCode(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "no problem";
  } catch (error) {
    if (error instanceof Problem) return error.data.code;
    throw error;
  }
}

/** Keys without a secret. */
function insertKeys(
  user: TestUser,
  count: number,
  { expiresAt = null, revokedAt = null }: { expiresAt?: number | null; revokedAt?: number | null },
) {
  const ids = JSON.stringify(Array.from({ length: count }, (_, index) => index));
  return all(
    env.DB,
    sql`INSERT INTO api_keys (api_key_id, user_id, label, scopes, secret_sealed, master_key_id,
        require_idempotency, minted_by, active_from, created_at, expires_at, revoked_at)
      SELECT randomblob(16), ${uuid(user.userId)}, 'old', 'read', '', 'm1', 0, 'session', 0, ${NOW},
        ${expiresAt}, ${revokedAt} FROM json_each(${ids})`,
  );
}

type Minted = Signer & { readonly scopes: string[] };

async function minted(user: TestUser, fields: object = {}): Promise<Minted> {
  const { status, json } = await apiOf(user).post(KEYS, { ...NEW_KEY, ...fields });
  expect(status).toBe(201);
  return { apiKeyId: json["api_key_id"], secret: json["secret"], scopes: json["scopes"] };
}

it("mints keys with the requested scopes that the session has", async () => {
  const user = await newUser();
  expect((await minted(user, { scopes: ["withdraw", "trade", "read"] })).scopes).toEqual([
    "read",
    "trade",
  ]);
  expect((await minted(user, { scopes: ["trade"] })).scopes).toEqual(["trade"]);
  const none = await apiOf(user).post(KEYS, { label: "w", scopes: ["withdraw"] });
  expect(none.json).toMatchObject({
    status: 403,
    code: "scope_missing",
    required_scope: "withdraw",
    granted_scopes: ["read", "trade"],
  });
});

describe("a session that is not fresh", () => {
  const strict = { ...settings(), AUTH_FRESH_SESSION_SECS: 300 };
  const old = ({ actor }: TestUser, ageSecs = 301): SessionActor => ({
    ...actor,
    credential: { ...actor.credential, issuedAtMs: Date.now() - ageSecs * 1_000 },
  });
  const mint = (actor: SessionActor, scopes: Scope[], password?: string) =>
    problemCode(
      mintApiKey(env.DB, strict, {
        actor,
        ip: undefined,
        key: { ...SESSION_KEY, expiresAt: undefined, scopes },
        password,
      }),
    );

  it("needs the password for a key that trades", async () => {
    const user = await newUserWithPassword();
    expect(await mint(old(user), ["read"])).toBe("no problem");
    expect(await mint(old(user), ["read", "trade"])).toBe("password_required");
    expect(await mint(old(user), ["trade"], "a wrong password")).toBe("login_failed");
    expect(await mint(old(user), ["trade"], PASSWORD)).toBe("no problem");
    expect(await mint(old(user, 290), ["trade"])).toBe("no problem");
  });

  it("needs the password for a key that waits for approval", async () => {
    const user = await newUserWithPassword();
    const asked = mintApiKey(env.DB, strict, {
      actor: old(user),
      ip: undefined,
      key: { ...SESSION_KEY, scopes: ["withdraw"], allowedIps: ["::/0"] },
      requestApproval: true,
    });
    expect(await problemCode(asked)).toBe("password_required");
  });

  it("reads the age from the token", async () => {
    const { userId } = await newUser();
    const { accessToken } = await issueSession(strict, { userId, epoch: 0 }, 1_800_000_000_000);
    const actor = await readSession(strict, `Bearer ${accessToken}`, 1_800_000_300_000);
    expect(actor.credential.issuedAtMs).toBe(1_800_000_000_000);
  });
});

it("ends a key after 90 days, unless its user says otherwise", async () => {
  const user = await newUser();
  const expiry = async (fields: object) => {
    const { json } = await apiOf(user).post(KEYS, { ...NEW_KEY, ...fields });
    return json["expires_at"] === null
      ? null
      : Math.round((Date.parse(json["expires_at"]) - Date.now()) / 86_400_000);
  };
  expect(await expiry({})).toBe(90);
  expect(await expiry({ scopes: ["read"] })).toBe(90);
  expect(await expiry({ expires_at: null })).toBeNull();
  expect(await expiry({ expires_at: new Date(Date.now() + 864e5).toISOString() })).toBe(1);
});

it.each([
  ["for ever", null, "401 password_required"],
  ["for 91 days", 91 * DAY_MS, "401 password_required"],
  ["for 89 days", 89 * DAY_MS, "201"],
])("a session that is not fresh mints a key that reads %s: %s", async (_, life, code) => {
  const { token } = await newUser();
  const expires_at = life === null ? null : new Date(Date.now() + life).toISOString();
  const api = apiOf({ token }, { AUTH_FRESH_SESSION_SECS: "0" });
  const answer = await api.post(KEYS, { label: "x", scopes: ["read"], expires_at });
  expect(answer.status === 201 ? "201" : await codeOf(answer)).toBe(code);
});

describe("a key that ends soon", () => {
  const notices: string[] = [];
  const run = async () => {
    const pushed = async (userId: string) => void notices.push(userId);
    while (await noticeKeys(env.DB, config(env), pushed));
  };
  const kinds = async (user: TestUser) =>
    (await apiOf(user).list("/auth/get-audit-events?limit=100")).map(({ kind }) => kind);
  const endsIn = async (user: TestUser, days: number, age = 30) => {
    const key = await newKey(user, ["read"], { expiresAt: Date.now() + days * DAY_MS });
    await all(
      env.DB,
      sql`UPDATE api_keys SET created_at = created_at - ${age * DAY_MS}
        WHERE api_key_id = ${uuid(key.apiKeyId)}`,
    );
    return key;
  };

  it("is a notice a week before, once", async () => {
    const user = await newUser();
    const subscriber = await connect(user, accountStream(user.userId));
    const key = await endsIn(user, 6.9);
    await endsIn(user, 7.1);
    await TASKS.find(([name]) => name === "notice_keys")?.[1](env, new Map());
    const { data } = await subscriber.until(
      ({ type, data: { kind } }) => type === "account.notice" && kind === "api_key_expiring",
    );
    expect(data).toMatchObject({ subject_id: key.apiKeyId });
    await run();
    expect((await kinds(user)).filter((kind) => kind === "api_key_expiring")).toHaveLength(1);
  });

  it("is none if it has ended, was revoked, or lives no longer than a week", async () => {
    const user = await newUser();
    const revoked = await endsIn(user, 3);
    await apiOf(user).delete(KEYS, { api_key_id: revoked.apiKeyId });
    await endsIn(user, 3, 3.9);
    await endsIn(user, -1);
    await run();
    expect(await kinds(user)).not.toContain("api_key_expiring");
    expect(notices).not.toContain(user.userId);
  });
});

it("returns the secret once and never stores it in clear text", async () => {
  const user = await newUser();
  const key = await minted(user);
  expect(Buffer.from(key.secret, "base64url")).toHaveLength(32);
  const list = await apiOf(user).get(KEYS);
  expect(list.text).toContain(key.apiKeyId);
  expect(list.text).not.toContain("secret");
  const tables = await all<{ name: string }>(
    env.DB,
    sql`SELECT name FROM sqlite_master
      WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE '_cf_%'`,
  );
  for (const { name } of tables) {
    const rows = await env.DB.prepare(`SELECT * FROM "${name}"`).all();
    expect(JSON.stringify(rows.results)).not.toContain(key.secret);
  }
});

it("reports all field errors of a new key together", async () => {
  const api = apiOf(await newUser());
  const { json } = await api.post(KEYS, {
    label: "",
    scopes: [],
    allowed_ips: ["1.2.3.4/8"],
    expires_at: "tomorrow",
    colour: "red",
  });
  const paths = json["errors"].map((error: { path: string }) => error.path).toSorted();
  expect(paths).toEqual([
    "body.allowed_ips.0",
    "body.colour",
    "body.expires_at",
    "body.label",
    "body.scopes",
  ]);
  for (const fields of [{ allowed_ips: [] }, { expires_at: "2020-01-01T00:00:00Z" }]) {
    const response = await api.post(KEYS, { ...NEW_KEY, ...fields });
    expect(await codeOf(response)).toBe("400 invalid_request");
  }
});

it("revokes a key immediately and idempotently", async () => {
  const user = await newUser();
  const key = await minted(user);
  const ofKey = apiOf(key);
  expect((await ofKey.get(WHOAMI)).status).toBe(200);
  const target = `${KEYS}?api_key_id=${key.apiKeyId}`;
  const once = await apiOf(user).delete(target);
  const twice = await apiOf(user).delete(target);
  expect(once.json["revoked_at"]).toBeTypeOf("string");
  expect(twice.json["revoked_at"]).toBe(once.json["revoked_at"]);
  expect(await codeOf(await ofKey.get(WHOAMI))).toBe("401 api_key_revoked");
  const rows = await all(
    env.DB,
    sql`SELECT 1 FROM audit_events
      WHERE kind = 'api_key_revoked' AND subject_id = ${key.apiKeyId}`,
  );
  expect(rows).toHaveLength(1);
});

it("lets a key revoke only itself and hides other users' keys", async () => {
  const user = await newUser();
  const [own, other] = [await minted(user), await minted(user)];
  const [ofOwn, ofStranger] = [apiOf(own), apiOf(await newUser())];
  const revoke = (id: string) => ({ api_key_id: id });
  expect(await codeOf(await ofOwn.delete(KEYS, revoke(other.apiKeyId)))).toBe(
    "403 session_required",
  );
  expect(await codeOf(await ofStranger.delete(KEYS, revoke(own.apiKeyId)))).toBe(
    "404 api_key_unknown_id",
  );
  expect((await ofOwn.delete(KEYS, revoke(own.apiKeyId.toUpperCase()))).status).toBe(200);
  expect(await codeOf(await ofOwn.get(WHOAMI))).toBe("401 api_key_revoked");
  expect((await apiOf(other).get(WHOAMI)).status).toBe(200);
});

it("a revocation stops writes immediately, despite the credential cache", async () => {
  const user = await newUser();
  const { actor, apiKeyId } = await newKey(user, ["trade"]);
  const allowed = async () =>
    (await first<{ ok: number }>(env.DB, sql`SELECT ${mayWrite(actor, NOW)} AS ok`))?.ok === 1;
  expect(await allowed()).toBe(true);
  await revokeApiKey(env.DB, { apiKeyId, operator: "test" });
  expect(await allowed()).toBe(false);
  expect((await actorRejection(env.DB, actor))?.code).toBe("api_key_revoked");
});

it("reveals that a key is revoked or expired only to its owner", async () => {
  const user = await newUser();
  const revoked = await newKey(user, ["read"]);
  await revokeApiKey(env.DB, { apiKeyId: revoked.apiKeyId, operator: "test" });
  const expired = await newKey(user, ["read"], { expiresAt: 1 });
  for (const [key, code] of [
    [revoked, "401 api_key_revoked"],
    [expired, "401 api_key_expired"],
  ] as const) {
    expect(await codeOf(await apiOf(key).get(WHOAMI))).toBe(code);
    const guess = apiOf({ ...key, secret: "guess" });
    expect(await codeOf(await guess.get(WHOAMI))).toBe("401 signature_invalid");
  }
});

it("enforces allowed_ips against CF-Connecting-IP only", async () => {
  const key = await newKey(await newUser(), ["read"], {
    allowedIps: ["192.0.2.0/24", "2001:db8::1"],
  });
  const from = (ip: string, more: Record<string, string> = {}) =>
    apiOf(key).get(WHOAMI, { "cf-connecting-ip": ip, ...more });
  expect((await from("192.0.2.200")).status).toBe(200);
  expect((await from("2001:0DB8::0001")).status).toBe(200);
  expect(
    await codeOf(
      await from("198.51.100.1", {
        "x-forwarded-for": "192.0.2.1",
        "x-real-ip": "192.0.2.1",
        "true-client-ip": "192.0.2.1",
      }),
    ),
  ).toBe("403 ip_not_allowed");
});

it("lists an operator's key but gives it scopes only after the delay", async () => {
  const user = await newUser();
  const key = await newKey(user, ["read", "trade"], { delaySecs: 3_600 });
  const ofKey = apiOf(key);
  expect((await ofKey.get(WHOAMI)).json).toMatchObject({ scopes: [] });
  expect(await codeOf(await ofKey.get(KEYS))).toBe("403 scope_missing");
  expect(await codeOf(await ofKey.post("/auth/ws-ticket/signed"))).toBe("403 scope_missing");
  expect((await apiOf(user).get(KEYS)).json["items"]).toMatchObject([
    { api_key_id: key.apiKeyId, minted_by: "operator", scopes: ["read", "trade"] },
  ]);
  await setActiveFrom(key, 1);
  forgetAllCredentials();
  expect((await ofKey.get(WHOAMI)).json).toMatchObject({ scopes: ["read", "trade"] });
});

it("limits a user to 100 keys under concurrent minting", async () => {
  const { actor } = await newUser();
  const outcomes = await Promise.allSettled(
    Array.from({ length: MAX_KEYS_PER_USER + 5 }, () =>
      mintApiKey(env.DB, settings(), { actor, ip: undefined, key: SESSION_KEY }),
    ),
  );
  const codes = outcomes.flatMap((outcome) =>
    outcome.status === "rejected" && outcome.reason instanceof Problem
      ? [outcome.reason.data.code]
      : [],
  );
  expect(codes).toEqual(Array.from({ length: 5 }, () => "api_key_limit"));
});

it("counts keys that expire later, also for an operator's key", async () => {
  const user = await newUser();
  await insertKeys(user, MAX_KEYS_PER_USER - 1, { expiresAt: Date.now() + 86_400_000 });
  await insertKeys(user, 1, { expiresAt: Date.now() - 1 });
  await newKey(user, ["read"]);
  expect(await problemCode(newKey(user, ["read"]))).toBe("api_key_limit");
  expect(await codeOf(await apiOf(user).post(KEYS, NEW_KEY))).toBe("409 api_key_limit");
});

it("makes no operator's key for a user who does not exist", async () => {
  const userId = crypto.randomUUID();
  await expect(newKey({ userId }, ["read"])).rejects.toThrow(Problem);
  const keys = sql`SELECT 1 FROM api_keys WHERE user_id = ${uuid(userId)}`;
  expect(await all(env.DB, keys)).toEqual([]);
});

it("pages through every key once", async () => {
  const user = await newUser();
  const made = await Promise.all(Array.from({ length: 7 }, () => newKey(user, ["read"])));
  const listed = await apiOf(user).list(`${KEYS}?limit=3`);
  expect(listed.map((key) => String(key["api_key_id"])).toSorted()).toEqual(
    made.map((key) => key.apiKeyId).toSorted(),
  );
});

it("records last_used_at at most once a minute", async () => {
  const user = await newUser();
  const key = await newKey(user, ["read"]);
  const noted = async () =>
    (
      await first<{ at: number | null }>(
        env.DB,
        sql`SELECT last_used_at AS at FROM api_keys WHERE api_key_id = ${uuid(key.apiKeyId)}`,
      )
    )?.at;
  await apiOf(key).get(WHOAMI);
  const at = await noted();
  expect(at).toBeTypeOf("number");
  await apiOf(key).get(WHOAMI);
  expect(await noted()).toBe(at);
});

it("opens a sealed secret only for its key, user and master key", async () => {
  const ring = { m1: "master-one-0123456789-0123456789-xyz" };
  const owner = `api-key:${crypto.randomUUID()}`;
  const box = await sealSecret(ring, "the secret", owner);
  expect(box.sealed).not.toContain("the secret");
  expect(await openSecret(ring, box, owner)).toBe("the secret");
  await expect(openSecret(ring, box, `${owner}1`)).rejects.toThrow();
  await expect(
    openSecret({ m1: "master-two-0123456789-0123456789-xyz" }, box, owner),
  ).rejects.toThrow();
  await expect(openSecret({ m2: ring.m1 }, box, owner)).rejects.toThrow(
    "MASTER_KEYS does not contain the key m1",
  );
  expect((await sealSecret(ring, "the secret", owner)).sealed).not.toBe(box.sealed);
});

it("rewraps every key with the newest master key; keys keep working", async () => {
  const user = await newUser();
  const key = await newKey(user, ["read"]);
  const { m1 = "" } = settings().MASTER_KEYS;
  const rotated = settings({ MASTER_KEYS: { m2: "a-new-master-key-0123456789-0123456789", m1 } });
  expect((await rewrapKeys(env.DB, rotated, "test")).rewrapped).toBeGreaterThan(0);
  const row = await first<{ master: string }>(
    env.DB,
    sql`SELECT master_key_id AS master FROM api_keys
      WHERE api_key_id = ${uuid(key.apiKeyId)}`,
  );
  expect(row?.master).toBe("m2");
  const { m2 = "" } = rotated.MASTER_KEYS;
  forgetAllCredentials();
  const without = apiOf(key, { MASTER_KEYS: JSON.stringify({ m2 }) });
  expect((await without.get(WHOAMI)).status).toBe(200);
  expect((await rewrapKeys(env.DB, rotated, "test")).rewrapped).toBe(0);
  // Restore m1 for the other tests of this file.
  await rewrapKeys(env.DB, settings({ MASTER_KEYS: { m1, m2 } }), "test");
  forgetAllCredentials();
  expect((await apiOf(key).get(WHOAMI)).status).toBe(200);
});

it("counts and revokes live keys without reading those that were revoked", async () => {
  const user = await newUser();
  await insertKeys(user, 5_000, { revokedAt: 1 });
  await minted(user);
  const batches = await rowsReadBy(async (db) => {
    await mintApiKey(db, settings(), { actor: user.actor, ip: undefined, key: SESSION_KEY });
    await endSessions(db, { actor: user.actor, revokeKeys: true, ip: undefined });
  });
  expect(batches).toBeLessThan(300);
  const live = await first<{ keys: number }>(
    env.DB,
    sql`SELECT count(*) AS keys FROM api_keys
      WHERE user_id = ${uuid(user.userId)} AND revoked_at IS NULL`,
  );
  expect(live?.keys).toBe(0);
});

it("deletes keys 30 days after they ended", async () => {
  const user = await newUser();
  const [revoked, expired, recent, live] = [
    await minted(user),
    await minted(user),
    await minted(user),
    await minted(user),
  ];
  const day = 86_400_000;
  const set = (key: Minted, column: "revoked_at" | "expires_at", days: number) =>
    all(
      env.DB,
      sql`UPDATE api_keys SET ${raw(column)} = ${Date.now() - days * day}
        WHERE api_key_id = ${uuid(key.apiKeyId)}`,
    );
  await set(revoked, "revoked_at", 31);
  await set(expired, "expires_at", 31);
  await set(recent, "revoked_at", 29);
  await trimApiKeys(env.DB);
  const { json } = await apiOf(user).get(KEYS);
  const listed = json["items"].map((item: { api_key_id: string }) => item.api_key_id);
  expect(listed.toSorted()).toEqual([recent.apiKeyId, live.apiKeyId].toSorted());
});
