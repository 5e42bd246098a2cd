/** A user freezes their own account, and who can end that freeze. */
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { freezeUser, unfreezeUser } from "../../src/auth/freeze-user.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { anyIp, apiOf, codeOf, problemOf, send } from "../support/http.ts";
import { quotedMarket } from "../support/market.ts";
import { codeOfStep, enrol, freshCode, moveTotp, presentStep } from "../support/totp.ts";
import { newKey, newUser, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 20_000 });

const post = (path: string, body: object) =>
  send(path, {
    method: "POST",
    headers: { "cf-connecting-ip": anyIp() },
    body: JSON.stringify(body),
  });
const unfreeze = (user: TestUser, totp_code: string, more: object = {}) =>
  post("/auth/unfreeze", {
    email: user.email,
    password: PASSWORD,
    totp_code,
    revoke_keys: false,
    ...more,
  });
const login = (user: TestUser, more: object = {}) =>
  post("/auth/login", { email: user.email, password: PASSWORD, ...more });
const freeze = async (caller: Parameters<typeof apiOf>[0]) => {
  const response = await apiOf(caller).post("/auth/freeze", {});
  forgetAllCredentials();
  return response;
};

const DAY_MS = 86_400_000;
/** Lets time pass for the authenticator. */
const agePast = moveTotp;

it("stops every credential and is ended by a code", async () => {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  const key = await newKey(user, ["read", "trade"]);
  const { status, json } = await freeze(user);
  expect([status, json]).toEqual([200, { user_id: user.userId, frozen_by: "self" }]);
  for (const caller of [user, key])
    expect((await apiOf(caller).get("/auth/whoami")).json).toMatchObject({
      code: "account_frozen",
      frozen_by: "self",
    });
  expect(await problemOf(await login(user))).toMatchObject({
    code: "account_frozen",
    frozen_by: "self",
  });
  expect(await codeOf(await unfreeze(user, "000000", { password: "not it" }))).toBe(
    "401 login_failed",
  );
  expect(await codeOf(await unfreeze(user, "000000"))).toBe("401 totp_invalid");
  const ended = await unfreeze(user, await freshCode(user, secret));
  expect(await ended.json()).toEqual({ user_id: user.userId, revoked_keys: false });
  forgetAllCredentials();
  expect(await codeOf(await apiOf(user).get("/auth/whoami"))).toBe("401 session_invalid");
  expect((await apiOf(key).get("/auth/whoami")).status).toBe(200);
  expect((await login(user, { totp_code: await freshCode(user, secret) })).status).toBe(200);
});

it("cancels open requests and quotes with their reserves", async () => {
  const { requester, maker, request, quote } = await quotedMarket();
  await freeze(maker);
  await freeze(requester);
  const row = await first<{ quote: string; request: string; left: number }>(
    env.DB,
    sql`SELECT (SELECT status FROM quotes WHERE quote_id = ${uuid(quote.quote_id)}) AS quote,
      (SELECT status FROM requests WHERE request_id = ${uuid(request.request_id)}) AS request`,
  );
  expect(row).toEqual({ quote: "cancelled", request: "cancelled" });
});

it("takes a session or a key that can do harm, and tells who froze", async () => {
  const user = await newUser();
  expect(await codeOf(await freeze(await newKey(user, ["read"])))).toBe("403 scope_missing");
  for (const scopes of [["trade"], ["withdraw"]] as const) {
    const owner = await newUser();
    expect((await freeze(await newKey(owner, scopes))).status).toBe(200);
    const { json } = await freeze(owner);
    expect(json).toMatchObject({ code: "account_frozen", frozen_by: "self" });
  }
});

it("is ended by the operator only without TOTP, or after the operator's freeze", async () => {
  const plain = await newUserWithPassword();
  await freeze(plain);
  expect(await problemOf(await unfreeze(plain, "123456"))).toMatchObject({
    code: "account_frozen",
    frozen_by: "self",
  });
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  await freeze(user);
  expect(await freezeUser(env.DB, { userId: user.userId, operator: "test" })).toBe(true);
  expect(await problemOf(await unfreeze(user, await freshCode(user, secret)))).toMatchObject({
    code: "account_frozen",
    frozen_by: "operator",
  });
  expect(await unfreezeUser(env.DB, { userId: user.userId, operator: "test" })).toBe(true);
  const code = { totp_code: await freshCode(user, secret) };
  expect((await login(user, code)).status).toBe(200);
});

it("revokes the keys of sessions if asked, and cancels a removal of TOTP", async () => {
  const user = await newUserWithPassword();
  const { secret, codes } = await enrol(user);
  const operators = await newKey(user, ["read"]);
  const minted = await apiOf(user).post("/auth/api-keys", { label: "bot", scopes: ["read"] });
  const own = { apiKeyId: minted.json["api_key_id"], secret: minted.json["secret"] };
  const thief = apiOf(user, { AUTH_SECURITY_DELAY_SECS: "86400" });
  await thief.post("/auth/remove-totp", { password: PASSWORD, recovery_code: codes[0] });
  await freeze(user);
  const row = await first<{ ends: number | null }>(
    env.DB,
    sql`SELECT ends_at AS ends FROM totp_secrets WHERE user_id = ${uuid(user.userId)}`,
  );
  expect(row?.ends).toBeNull();
  await unfreeze(user, await freshCode(user, secret), { revoke_keys: true });
  forgetAllCredentials();
  expect(await codeOf(await apiOf(own).get("/auth/whoami"))).toBe("401 api_key_revoked");
  expect((await apiOf(operators).get("/auth/whoami")).status).toBe(200);
});

const DAY = { AUTH_SECURITY_DELAY_SECS: "86400" };
type Factors = { readonly password: string; readonly secret: string };
const OTHER = "the password of a thief";

it.each<[string, (user: TestUser) => Promise<Factors>]>([
  [
    "password",
    async (user) => {
      const { secret } = await enrol(user);
      await agePast(user, DAY_MS + 1);
      const change = { password: PASSWORD, new_password: OTHER, revoke_keys: true };
      const totp_code = await freshCode(user, secret);
      await apiOf(user, DAY).post("/auth/change-password", { ...change, totp_code });
      return { password: OTHER, secret };
    },
  ],
  [
    "new authenticator",
    async (user) => {
      const { codes } = await enrol(user);
      await agePast(user, DAY_MS + 1, codes);
      const { json } = await apiOf(user, DAY).post("/auth/totp", {
        password: PASSWORD,
        recovery_code: codes[0],
      });
      const totp_code = codeOfStep(json["secret"], presentStep());
      await apiOf(user, DAY).post("/auth/confirm-totp", { totp_code });
      return { password: PASSWORD, secret: json["secret"] };
    },
  ],
  [
    "first authenticator",
    async (user) => ({ password: PASSWORD, secret: (await enrol(user)).secret }),
  ],
])("is not ended with a %s of the day before it", async (_, change) => {
  // One who could end their own freeze.
  const other = await newUserWithPassword();
  await enrol(other);
  await agePast(other, 2 * DAY_MS);
  await freeze(other);
  const user = await newUserWithPassword();
  const key = await newKey(user, ["read", "trade"]);
  const { password, secret } = await change(user);
  expect((await freeze(key)).status).toBe(200);
  const end = async () => {
    const totp_code = await freshCode(user, secret);
    const body = { email: user.email, password, totp_code, revoke_keys: false };
    const sent = { method: "POST", body: JSON.stringify(body), env: DAY };
    return problemOf(await send("/auth/unfreeze", sent));
  };
  expect(await end()).toMatchObject({ code: "account_frozen", frozen_by: "self" });
  // Also not later, when the hold is over.
  await all(
    env.DB,
    sql`UPDATE users SET hold_until = hold_until - ${DAY_MS}, frozen_at = frozen_at - ${DAY_MS}
      WHERE user_id = ${uuid(user.userId)}`,
  );
  await agePast(user, DAY_MS);
  expect(await end()).toMatchObject({ code: "account_frozen", frozen_by: "self" });
});

it("leaves an account that is not frozen as it is", async () => {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  const minted = await apiOf(user).post("/auth/api-keys", { label: "bot", scopes: ["read"] });
  const own = { apiKeyId: minted.json["api_key_id"], secret: minted.json["secret"] };
  const same = await unfreeze(user, await freshCode(user, secret), { revoke_keys: true });
  expect(await same.json()).toEqual({ user_id: user.userId, revoked_keys: false });
  expect((await apiOf(own).get("/auth/whoami")).status).toBe(200);
});
