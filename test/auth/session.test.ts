import { env } from "cloudflare:workers";
import { scryptSync } from "node:crypto";
import { expect, it } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { beginAttempt, LOGIN_LIMITS, trimLoginAttempts } from "../../src/auth/login-throttle.ts";
import { login, register } from "../../src/auth/login.ts";
import { issueSession, readSession } from "../../src/auth/session.ts";
import { freezeUser, unfreezeUser } from "../../src/auth/user.ts";
import { config } from "../../src/platform/config.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, first, sql } from "../../src/platform/sql.ts";
import { anyIp, bearer, codeOf, problemOf, send, sendSigned, settings } from "../support/http.ts";
import { newKey, newUser } from "../support/users.ts";

const PASSWORD = "correct horse battery staple";
const anyEmail = () => `${crypto.randomUUID()}@session.test`;
const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
  send(path, { method: "POST", body: JSON.stringify(body), headers });

async function problemCode(work: Promise<unknown>): Promise<string> {
  try {
    await work;
    return "no error";
  } catch (error) {
    if (error instanceof Problem) return error.data.code;
    throw error;
  }
}

it("registers and logs in with the scopes of the setting", async () => {
  const email = anyEmail();
  const registered = await post("/auth/register", { email, password: PASSWORD });
  expect(registered.status).toBe(201);
  expect(
    await codeOf(
      await post("/auth/register", { email: ` ${email.toUpperCase()} `, password: PASSWORD }),
    ),
  ).toBe("409 email_taken");
  const response = await post("/auth/login", { email: email.toUpperCase(), password: PASSWORD });
  const session = await response.json<Record<string, unknown>>();
  expect(session).toMatchObject({
    token_type: "Bearer",
    expires_in: 3_600,
    scopes: ["read", "trade"],
  });
  const who = await send("/auth/whoami", { headers: bearer(String(session["access_token"])) });
  expect(await who.json()).toMatchObject({
    user_id: session["user_id"],
    credential: "session",
    api_key_id: null,
    scopes: ["read", "trade"],
  });
  expect(await codeOf(await post("/auth/login", { email, password: `${PASSWORD}!` }))).toBe(
    "401 login_failed",
  );
  const events = await (
    await send("/auth/get-audit-events", { headers: bearer(String(session["access_token"])) })
  ).json<{ items: { kind: string }[] }>();
  expect(events.items.map((event) => event.kind)).toEqual([
    "login_failed",
    "login",
    "user_created",
  ]);
});

it("rejects registration if the setting closes it", async () => {
  const credentials = { email: anyEmail(), password: PASSWORD, ip: anyIp() };
  expect(
    await problemCode(register(env.DB, settings({ AUTH_REGISTRATION: "closed" }), credentials)),
  ).toBe("registration_closed");
});

it("treats an unknown email like a wrong password", async () => {
  const before = Date.now();
  const response = await post("/auth/login", { email: anyEmail(), password: PASSWORD });
  expect(await codeOf(response)).toBe("401 login_failed");
  expect(Date.now() - before).toBeGreaterThan(50);
});

it("upgrades a weaker password hash at login", async () => {
  const user = await newUser();
  const salt = Buffer.from("0123456789abcdef");
  const weak = [
    "scrypt",
    10,
    8,
    1,
    salt.toString("base64url"),
    scryptSync(PASSWORD, salt, 32, { N: 1024, r: 8, p: 1 }).toString("base64url"),
  ].join("$");
  await all(env.DB, sql`UPDATE users SET password_hash = ${weak} WHERE email = ${user.email}`);
  await login(env.DB, settings(), { email: user.email, password: PASSWORD, ip: anyIp() });
  const row = await first<{ password_hash: string }>(
    env.DB,
    sql`SELECT password_hash FROM users WHERE email = ${user.email}`,
  );
  expect(row?.password_hash).toMatch(/^scrypt\$15\$8\$3\$/);
});

it("reports a freeze only to callers with the right password", async () => {
  const email = anyEmail();
  const { user_id: userId, access_token: token } = await register(env.DB, settings(), {
    email,
    password: PASSWORD,
    ip: anyIp(),
  });
  expect(await freezeUser(env.DB, { userId, operator: "test" })).toBe(true);
  expect(await freezeUser(env.DB, { userId, operator: "test" })).toBe(false);
  expect(
    await problemCode(login(env.DB, settings(), { email, password: PASSWORD, ip: anyIp() })),
  ).toBe("account_frozen");
  expect(
    await problemCode(login(env.DB, settings(), { email, password: "wrong", ip: anyIp() })),
  ).toBe("login_failed");
  expect(await unfreezeUser(env.DB, { userId, operator: "test" })).toBe(true);
  forgetAllCredentials();
  expect((await send("/auth/whoami", { headers: bearer(token) })).status).toBe(200);
});

it("accepts sessions of every secret in the ring only", async () => {
  const user = { userId: (await newUser()).userId, epoch: 0 };
  const { t1 = "", t2 = "" } = settings().SESSION_SECRETS;
  const old = await issueSession(settings({ SESSION_SECRETS: { t1 } }), user);
  expect(
    (
      await readSession(
        settings({ SESSION_SECRETS: { t2, t1 } }),
        `Bearer ${old.accessToken}`,
        Date.now(),
      )
    ).userId,
  ).toBe(user.userId);
  expect(
    await problemCode(
      readSession(settings({ SESSION_SECRETS: { t2 } }), `Bearer ${old.accessToken}`, Date.now()),
    ),
  ).toBe("session_invalid");
  // The kid is known, but its secret is a different one.
  expect(
    await problemCode(
      readSession(
        settings({ SESSION_SECRETS: { t1: t2 } }),
        `Bearer ${old.accessToken}`,
        Date.now(),
      ),
    ),
  ).toBe("session_invalid");
});

it("expires a session to the millisecond", async () => {
  const session = await issueSession(settings(), { userId: (await newUser()).userId, epoch: 0 });
  const authorization = `Bearer ${session.accessToken}`;
  await readSession(settings(), authorization, session.expiresAtMs - 1);
  expect(await problemCode(readSession(settings(), authorization, session.expiresAtMs))).toBe(
    "session_expired",
  );
});

it("rejects a setting that gives sessions the scope withdraw", () => {
  expect(() => config({ ...env, AUTH_SESSION_SCOPES: "read,withdraw" })).toThrow(
    /AUTH_SESSION_SCOPES/,
  );
});

it("applies narrower AUTH_SESSION_SCOPES to existing sessions", async () => {
  const session = await issueSession(settings(), { userId: (await newUser()).userId, epoch: 0 });
  const actor = await readSession(
    settings({ AUTH_SESSION_SCOPES: ["read"] }),
    `Bearer ${session.accessToken}`,
    Date.now(),
  );
  expect(actor.scopes).toEqual(["read"]);
});

it("ends all sessions and optionally revokes and audits every key", async () => {
  const user = await newUser();
  const other = (await issueSession(settings(), { userId: user.userId, epoch: 0 })).accessToken;
  const keys = [await newKey(user, ["read"]), await newKey(user, ["read"])];
  await send("/auth/whoami", { headers: bearer(other) });
  for (const key of keys) await sendSigned(key, "/auth/whoami");
  expect(
    (
      await send("/auth/sessions?revoke_keys=true", {
        method: "DELETE",
        headers: bearer(user.token),
      })
    ).status,
  ).toBe(200);
  expect(await codeOf(await send("/auth/whoami", { headers: bearer(other) }))).toBe(
    "401 session_invalid",
  );
  for (const key of keys)
    expect(await codeOf(await sendSigned(key, "/auth/whoami"))).toBe("401 api_key_revoked");
  const rows = await all<{ subject_id: string }>(
    env.DB,
    sql`SELECT subject_id FROM audit_events WHERE kind = 'api_key_revoked'
      AND subject_id IN (${keys[0]?.apiKeyId ?? ""}, ${keys[1]?.apiKeyId ?? ""})`,
  );
  expect(rows).toHaveLength(2);
});

it("limits concurrent failed logins per email and network", async () => {
  const email = anyEmail();
  const ip = anyIp();
  const codes = await Promise.all(
    Array.from({ length: LOGIN_LIMITS.perEmailAndNetwork + 15 }, () =>
      problemCode(beginAttempt(env.DB, email, ip)),
    ),
  );
  expect(codes.filter((code) => code === "no error")).toHaveLength(LOGIN_LIMITS.perEmailAndNetwork);
  const response = await post(
    "/auth/login",
    { email, password: PASSWORD },
    { "cf-connecting-ip": ip },
  );
  expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(0);
  expect(Number(response.headers.get("retry-after"))).toBeLessThanOrEqual(
    LOGIN_LIMITS.windowMs / 1_000,
  );
  expect((await problemOf(response))["code"]).toBe("login_throttled");
});

it("does not lock out the owner during distributed guessing", async () => {
  const user = await newUser();
  for (let done = 0; done < LOGIN_LIMITS.perEmail; done += 5) {
    const ip = anyIp();
    await Promise.all(Array.from({ length: 5 }, () => beginAttempt(env.DB, user.email, ip)));
  }
  const stranger = anyIp();
  for (let guess = 0; guess < LOGIN_LIMITS.underAttack; guess++)
    await beginAttempt(env.DB, user.email, stranger);
  expect(await problemCode(beginAttempt(env.DB, user.email, stranger))).toBe("login_throttled");
  expect(await problemCode(beginAttempt(env.DB, user.email, anyIp()))).toBe("no error");
});

it("limits failed logins of one network on many emails", async () => {
  const ip = anyIp();
  for (let tried = 0; tried < LOGIN_LIMITS.perNetwork; tried += 10) {
    await Promise.all(Array.from({ length: 10 }, () => beginAttempt(env.DB, anyEmail(), ip)));
  }
  expect(await problemCode(beginAttempt(env.DB, anyEmail(), ip))).toBe("login_throttled");
});

it("clears failures after a successful login", async () => {
  const email = anyEmail();
  const ip = anyIp();
  await register(env.DB, settings(), { email, password: PASSWORD, ip });
  for (let typo = 0; typo < LOGIN_LIMITS.perEmailAndNetwork - 1; typo++)
    await beginAttempt(env.DB, email, ip);
  await login(env.DB, settings(), { email, password: PASSWORD, ip });
  for (let typo = 0; typo < LOGIN_LIMITS.perEmailAndNetwork; typo++)
    await beginAttempt(env.DB, email, ip);
  await trimLoginAttempts(env.DB);
  expect(await problemCode(beginAttempt(env.DB, email, ip))).toBe("login_throttled");
});

it("throttles a flood of logins without blocking other routes", async () => {
  const email = anyEmail();
  const flood = Array.from({ length: 16 }, () =>
    post("/auth/login", { email, password: PASSWORD }, { "cf-connecting-ip": anyIp() }),
  );
  const time = await send("/time");
  expect(time.status).toBe(200);
  const statuses = (await Promise.all(flood)).map((response) => response.status);
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(0);
  expect(new Set(statuses)).toEqual(new Set([401, 429]));
}, 30_000);
