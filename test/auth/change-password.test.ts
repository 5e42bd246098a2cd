/** A change of the password, and step-up, which it takes. */
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { changePassword } from "../../src/auth/change-password.ts";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { LOGIN_LIMITS } from "../../src/auth/login-throttle.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { anyIp, apiOf, bearer, codeOf, send, settings } from "../support/http.ts";
import { newAddress } from "../support/ledger.ts";
import { newKey, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 20_000 });

const NEW = "an even better horse battery";
const body = (change: Record<string, unknown> = {}) => ({
  password: PASSWORD,
  new_password: NEW,
  revoke_keys: false,
  ...change,
});
const change = (user: TestUser, fields = body()) =>
  apiOf(user).post("/auth/change-password", fields);
const login = (user: TestUser, password: string) =>
  send("/auth/login", { method: "POST", body: JSON.stringify({ email: user.email, password }) });

it("changes the password, ends earlier sessions and returns a new one", async () => {
  const user = await newUserWithPassword();
  const { status, json } = await change(user);
  expect(status).toBe(200);
  expect(json).toMatchObject({ user_id: user.userId, scopes: ["read", "trade"] });
  forgetAllCredentials();
  const whoami = (token: string) => send("/auth/whoami", { headers: bearer(token) });
  expect(await codeOf(await whoami(user.token))).toBe("401 session_invalid");
  expect((await whoami(json["access_token"])).status).toBe(200);
  expect(await codeOf(await login(user, PASSWORD))).toBe("401 login_failed");
  expect((await login(user, NEW)).status).toBe(200);
  const { json: events } = await apiOf({ token: json["access_token"] }).get(
    "/auth/get-audit-events",
  );
  expect(events["items"].map(({ kind }: { kind: string }) => kind)).toEqual([
    "login",
    "login_failed",
    "security_hold",
    "sessions_ended",
    "password_changed",
  ]);
});

it("revokes the keys of sessions only, and only if asked", async () => {
  const user = await newUserWithPassword();
  const operators = await newKey(user, ["read"]);
  const minted = await apiOf(user).post("/auth/api-keys", { label: "bot", scopes: ["read"] });
  const own = { apiKeyId: minted.json["api_key_id"], secret: minted.json["secret"] };
  const kept = await change(user);
  expect((await apiOf(own).get("/auth/whoami")).status).toBe(200);
  const token = kept.json["access_token"];
  const again = body({ password: NEW, new_password: PASSWORD, revoke_keys: true });
  expect((await apiOf({ token }).post("/auth/change-password", again)).status).toBe(200);
  expect(await codeOf(await apiOf(own).get("/auth/whoami"))).toBe("401 api_key_revoked");
  expect((await apiOf(operators).get("/auth/whoami")).status).toBe(200);
});

it("holds the account for a day, in which a freeze is possible", async () => {
  const user = await newUserWithPassword();
  const day = { AUTH_SECURITY_DELAY_SECS: "86400" };
  const key = await newKey(user, ["read", "trade"]);
  await apiOf(user, day).post("/auth/policy", { password: PASSWORD, sessions_trade: false });
  const loosened = { password: PASSWORD, sessions_trade: true };
  const waiting = await apiOf(user, day).post("/auth/policy", loosened);
  expect(waiting.json["pending"]).not.toBeNull();
  const { json } = await apiOf(user, day).post("/auth/change-password", body());
  expect(json["scopes"]).toEqual(["read"]);
  forgetAllCredentials();
  const held = apiOf({ token: json["access_token"] }, day);
  expect((await held.get("/auth/whoami")).json["scopes"]).toEqual(["read"]);
  expect((await held.get("/auth/policy")).json).toMatchObject({ pending: null });
  const step = { password: NEW };
  const calls = [
    held.post("/auth/api-keys", { label: "bot", scopes: ["read"] }),
    held.post("/auth/policy", { ...step, sessions_trade: true }),
    held.post("/custody/create-withdrawal-address", {
      ...step,
      address: newAddress(),
      label: "thief",
    }),
    held.post("/auth/remove-totp", { ...step, totp_code: "123456" }),
  ];
  for (const call of calls) expect(await codeOf(await call)).toBe("403 security_hold");
  // What was made before goes on, and the owner can change the password again, and freeze.
  expect((await apiOf(key).get("/auth/whoami")).json["scopes"]).toEqual(["read", "trade"]);
  const again = body({ password: NEW, new_password: PASSWORD });
  const changed = await held.post("/auth/change-password", again);
  expect(changed.json["scopes"]).toEqual(["read"]);
  forgetAllCredentials();
  const last = apiOf({ token: changed.json["access_token"] }, day);
  expect((await last.post("/auth/freeze", {})).status).toBe(200);
});

it("rejects a wrong password and limits the guesses of a stolen session", async () => {
  const user = await newUserWithPassword();
  const headers = { "cf-connecting-ip": anyIp() };
  const guess = () =>
    apiOf(user).post("/auth/change-password", body({ password: "not the password" }), headers);
  for (let count = 0; count < LOGIN_LIMITS.perEmailAndNetwork; count++)
    expect(await codeOf(await guess())).toBe("401 login_failed");
  const right = await apiOf(user).post("/auth/change-password", body(), headers);
  expect(await codeOf(right)).toBe("429 login_throttled");
  expect((await change(user)).status).toBe(200);
});

it("does not change the password of a session that ends meanwhile", async () => {
  const user = await newUserWithPassword();
  const changed = changePassword(env.DB, settings(), {
    actor: user.actor,
    fields: { password: PASSWORD, new_password: NEW },
    revokeKeys: true,
    clientIp: anyIp(),
  });
  await all(env.DB, sql`UPDATE users SET session_epoch = 7 WHERE user_id = ${uuid(user.userId)}`);
  const failure = await changed.catch((error: unknown) => error);
  expect(failure instanceof Problem && failure.data.code).toBe("session_invalid");
  expect((await login(user, PASSWORD)).status).toBe(200);
});

it("names what is missing", async () => {
  const user = await newUserWithPassword();
  const { status, json } = await apiOf(user).post("/auth/change-password", { new_password: "x" });
  expect(status).toBe(400);
  expect(json["errors"].map(({ path }: { path: string }) => path).toSorted()).toEqual([
    "body.new_password",
    "body.password",
    "body.revoke_keys",
  ]);
});
