/** What the operator's resets leave to whom: sessions that only read, for one delay. */
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { deliverNotices } from "../../src/auth/deliver-notices.ts";
import { applyEmailChanges } from "../../src/operator/users.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, codeOf, send, settings } from "../support/http.ts";
import { orderOf, orderOfTwo, sendOrder } from "../support/operator.ts";
import { newReceiver, SECRETS } from "../support/receiver.ts";
import { codeOfStep, enrol, freshCode, presentStep } from "../support/totp.ts";
import { newKey, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 20_000 });

const NEW = "the-password-of-the-operator";
const DELAYED = { ...env, AUTH_SECURITY_DELAY_SECS: "86400" };

async function execute(line: string, options: Record<string, string>): Promise<any> {
  const answer = await sendOrder(orderOf(line.split(" "), options), DELAYED);
  forgetAllCredentials();
  return answer;
}
const login = async (user: TestUser, body: object) => {
  const response = await send("/auth/login", {
    method: "POST",
    body: JSON.stringify({ email: user.email, ...body }),
  });
  return { status: response.status, json: await response.json<Record<string, any>>() };
};
const mint = async (user: TestUser) => {
  const { json } = await apiOf(user).post("/auth/api-keys", { label: "bot", scopes: ["read"] });
  return { apiKeyId: String(json["api_key_id"]), secret: String(json["secret"]) };
};

it("holds sessions to reading for a delay after set-password", async () => {
  const user = await newUserWithPassword();
  const [minted, operators] = [await mint(user), await newKey(user, ["read", "trade"])];
  const { result } = await execute("user set-password", { email: user.email, password: NEW });
  expect(result).toMatchObject({ user_id: user.userId, revoked_keys: 1, frozen: false });
  expect(Date.parse(result["hold_until"]) - Date.now()).toBeGreaterThan(86_390_000);
  expect(await codeOf(await apiOf(user).get("/auth/whoami"))).toBe("401 session_invalid");
  expect(await codeOf(await apiOf(minted).get("/auth/whoami"))).toBe("401 api_key_revoked");
  expect((await apiOf(operators).get("/auth/whoami")).json["scopes"]).toEqual(["read", "trade"]);

  const { json } = await login(user, { password: NEW });
  expect(json["scopes"]).toEqual(["read"]);
  const held = apiOf({ token: json["access_token"] });
  expect((await held.get("/auth/whoami")).json["scopes"]).toEqual(["read"]);
  expect(await codeOf(await held.delete("/rfq/quotes", {}))).toBe("403 scope_missing");
  const key = await held.post("/auth/api-keys", { label: "bot", scopes: ["read"] });
  expect(await codeOf(key)).toBe("403 security_hold");
  const removal = await held.post("/auth/remove-totp", { password: NEW });
  expect(removal.json).toMatchObject({ code: "security_hold", until: result["hold_until"] });
  // Enrolment of TOTP and a change of the password are possible.
  const { json: started } = await held.post("/auth/totp", { password: NEW });
  const code = codeOfStep(started["secret"], presentStep());
  expect((await held.post("/auth/confirm-totp", { totp_code: code })).status).toBe(200);
  const changed = await held.post("/auth/change-password", {
    password: NEW,
    new_password: PASSWORD,
    revoke_keys: false,
    totp_code: await freshCode(user, started["secret"]),
  });
  expect(changed.json["scopes"]).toEqual(["read"]);

  await all(env.DB, sql`UPDATE users SET hold_until = 1 WHERE user_id = ${uuid(user.userId)}`);
  forgetAllCredentials();
  const free = apiOf({ token: changed.json["access_token"] });
  expect((await free.get("/auth/whoami")).json["scopes"]).toEqual(["read", "trade"]);
});

it("keeps the keys of sessions with --keep-keys", async () => {
  const user = await newUserWithPassword();
  const minted = await mint(user);
  const options = { email: user.email, password: NEW, "keep-keys": "true" };
  expect(await execute("user set-password", options)).toMatchObject({
    result: { revoked_keys: 0 },
  });
  expect((await apiOf(minted).get("/auth/whoami")).status).toBe(200);
});

it("leaves TOTP on when it sets a password, and turns it off with reset-totp", async () => {
  const user = await newUserWithPassword();
  const { codes } = await enrol(user);
  await execute("user set-password", { email: user.email, password: NEW });
  expect((await login(user, { password: NEW })).json["code"]).toBe("totp_required");
  expect(await execute("user reset-totp", { email: user.email })).toMatchObject({
    result: { user_id: user.userId, sessions_ended: true },
  });
  const { status, json } = await login(user, { password: NEW, recovery_code: codes[0] });
  expect([status, json["scopes"]]).toEqual([200, ["read"]]);
  const whoami = await apiOf({ token: json["access_token"] }).get("/auth/whoami");
  expect(whoami.json["totp"]).toMatchObject({ enabled: false });
});

it("does not shorten a hold with a later reset", async () => {
  const user = await newUserWithPassword();
  const reset = await execute("user set-password", { email: user.email, password: NEW });
  const undelayed = { ...env, AUTH_SECURITY_DELAY_SECS: "0" };
  const order = orderOf(["user", "reset-totp"], { email: user.email });
  const { result } = await sendOrder(order, undelayed);
  expect(result["hold_until"]).toBe(reset.result["hold_until"]);
});

const mail = newReceiver();
const deliver = async (): Promise<Record<string, any>[]> => {
  const before = (await mail.bodies()).length;
  await deliverNotices(env.DB, settings({ NOTICE_URL: mail.url, NOTICE_SECRETS: SECRETS }));
  return (await mail.bodies()).slice(before).map(({ data }) => data);
};
async function changeEmail(user: TestUser, delaySecs: string) {
  await deliver();
  const to = `new-${user.email}`;
  const answer = await orderOfTwo(
    ["user", "set-password"],
    { "user-id": user.userId, "new-email": to },
    { password: NEW, AUTH_SECURITY_DELAY_SECS: delaySecs },
  );
  forgetAllCredentials();
  return { to, answer, notices: await deliver() };
}
const waits = async ({ userId }: TestUser) =>
  (await all(env.DB, sql`SELECT 1 FROM email_changes WHERE user_id = ${uuid(userId)}`)).length;
const cancel = (token: string) =>
  send("/auth/cancel-email-change", { method: "POST", body: JSON.stringify({ token }) });
const apply = async () => {
  await applyEmailChanges(DELAYED);
  forgetAllCredentials();
};

it("announces a new address to the old one for a day, with a token that cancels", async () => {
  const user = await newUserWithPassword();
  const key = await mint(user);
  const { to, answer, notices } = await changeEmail(user, "86400");
  expect(answer.result).toMatchObject({ email: user.email, new_email: to });
  expect(Date.parse(String(answer.result["active_from"])) - Date.now()).toBeGreaterThan(86_390_000);
  expect(notices).toMatchObject([{ kind: "email_change_requested", email: user.email }]);
  // The owner's password, session and key work until then.
  for (const credential of [user, key])
    expect((await apiOf(credential).get("/auth/whoami")).status).toBe(200);
  expect((await login(user, { password: PASSWORD })).status).toBe(200);
  expect((await login(user, { email: to, password: NEW })).status).toBe(401);
  const token = String(notices[0]?.["cancel_token"]);
  expect(await codeOf(await cancel(`${token}x`))).toBe("400 invalid_request");
  expect(await (await cancel(token)).json()).toEqual({ cancelled: true });
  expect(await (await cancel(token)).json()).toEqual({ cancelled: false });
  expect(await deliver()).toMatchObject([{ kind: "email_change_cancelled", email: user.email }]);
});

it("applies it after the delay, and tells the old address for 30 days", async () => {
  const user = await newUserWithPassword();
  const { to } = await changeEmail(user, "1");
  // An edited row does nothing before the instant of the event.
  await all(env.DB, sql`UPDATE email_changes SET active_from = 1 WHERE email = ${to}`);
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  await apply();
  expect(await codeOf(await apiOf(user).get("/auth/whoami"))).toBe("401 session_invalid");
  const { json } = await login(user, { email: to, password: NEW });
  expect(json["scopes"]).toEqual(["read"]);
  await newKey(user, ["read"]);
  expect(await deliver()).toMatchObject([
    { kind: "password_set", email: user.email },
    { kind: "email_changed", email: user.email },
    { kind: "api_key_created", email: to, old_emails: [user.email] },
  ]);
  const event = await first<{ details: string }>(
    env.DB,
    sql`SELECT details FROM audit_events
      WHERE user_id = ${uuid(user.userId)} AND kind = 'email_changed'`,
  );
  expect(JSON.parse(event?.details ?? "")).toEqual({ from: user.email, to });
});

it("is cancelled by a freeze with the owner's key, also if SQL puts the row back", async () => {
  const user = await newUserWithPassword();
  const key = await newKey(user, ["trade"]);
  const { to } = await changeEmail(user, "1");
  await all(env.DB, sql`CREATE TABLE kept AS SELECT * FROM email_changes WHERE email = ${to}`);
  expect((await apiOf(key).post("/auth/freeze", {})).status).toBe(200);
  expect(await waits(user)).toBe(0);
  await all(env.DB, sql`INSERT INTO email_changes SELECT * FROM kept`);
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  await apply();
  const row = await first<{ email: string }>(
    env.DB,
    sql`SELECT email FROM users WHERE user_id = ${uuid(user.userId)}`,
  );
  expect(row?.email).toBe(user.email);
  await all(env.DB, sql`DELETE FROM email_changes WHERE email = ${to}`);
  await all(env.DB, sql`DROP TABLE kept`);
});
