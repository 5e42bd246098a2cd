/** Whatever changes who may act for a user is an audit event and a notice on their stream. */
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { all, sql } from "../../src/platform/sql.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { anyIp, apiOf, send } from "../support/http.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { connect } from "../support/sockets.ts";
import { enrol, freshCode } from "../support/totp.ts";
import { newUser, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 30_000 });

async function noticesOf({ userId }: { userId: string }): Promise<Record<string, unknown>[]> {
  const rows = await all<{ body: string }>(
    env.DB,
    sql`SELECT e.body FROM stream_events e JOIN streams s ON s.stream_id = e.stream_id
      WHERE s.name = ${accountStream(userId)} AND e.type = 'account.notice' ORDER BY e.seq`,
  );
  return rows.map(({ body }) => JSON.parse(body));
}
const kindsOf = async (user: TestUser) => (await noticesOf(user)).map(({ kind }) => kind);
const execute = (line: string, options: Record<string, string>) =>
  sendOrder(orderOf(line.split(" "), options));

it("names the key and the address of a session's new key, at once on open sockets", async () => {
  const user = await newUser();
  const subscriber = await connect(user, accountStream(user.userId));
  const ip = anyIp();
  const { json } = await apiOf(user).post(
    "/auth/api-keys",
    { label: "bot", scopes: ["trade"] },
    { "cf-connecting-ip": ip },
  );
  const { data } = await subscriber.until("account.notice");
  expect(data).toEqual({
    kind: "api_key_created",
    subject_id: json["api_key_id"],
    api_key_id: null,
    ip,
  });
  const key = { apiKeyId: json["api_key_id"], secret: json["secret"] };
  await apiOf(key).delete("/auth/api-keys", { api_key_id: key.apiKeyId });
  expect((await noticesOf(user)).at(-1)).toMatchObject({
    kind: "api_key_revoked",
    subject_id: key.apiKeyId,
    api_key_id: key.apiKeyId,
  });
});

it("reports password, TOTP, and every key that they revoke", async () => {
  const user = await newUserWithPassword();
  const { codes, secret } = await enrol(user);
  const { json } = await apiOf(user).post("/auth/api-keys", { label: "bot", scopes: ["read"] });
  await apiOf(user, { AUTH_SECURITY_DELAY_SECS: "60" }).post("/auth/remove-totp", {
    password: PASSWORD,
    recovery_code: codes[0],
  });
  await apiOf(user).post("/auth/cancel-totp-removal", {});
  await apiOf(user).post("/auth/change-password", {
    password: PASSWORD,
    new_password: "an even better horse battery",
    revoke_keys: true,
    totp_code: await freshCode(user, secret),
  });
  expect(await kindsOf(user)).toEqual([
    "totp_enabled",
    "api_key_created",
    "recovery_code_used",
    "totp_removal_requested",
    "totp_removal_cancelled",
    "password_changed",
    "api_key_revoked",
  ]);
  expect((await noticesOf(user)).at(-1)).toMatchObject({ subject_id: json["api_key_id"] });
});

it("reports what operators do, and a freeze of one's own", async () => {
  const user = await newUserWithPassword();
  await execute("api-key create", { email: user.email, scopes: "read" });
  await execute("user freeze", { email: user.email });
  await execute("user unfreeze", { email: user.email });
  await execute("user reset-totp", { email: user.email });
  await execute("user set-password", { email: user.email, password: PASSWORD });
  expect(await kindsOf(user)).toEqual([
    "api_key_created",
    "account_frozen",
    "account_unfrozen",
    "totp_reset",
    "password_set",
  ]);
  const other = await newUser();
  await apiOf(other).post("/auth/freeze", {});
  expect(await kindsOf(other)).toEqual(["account_frozen"]);
});

it("reports a login from a network that is new to the user, once", async () => {
  const user = await newUserWithPassword();
  const login = (ip: string, password = PASSWORD) =>
    send("/auth/login", {
      method: "POST",
      headers: { "cf-connecting-ip": ip },
      body: JSON.stringify({ email: user.email, password }),
    });
  // The first login is new to nobody. The second one is in its /24.
  for (const ip of ["203.0.113.7", "203.0.113.250"]) expect((await login(ip)).status).toBe(200);
  expect(await noticesOf(user)).toEqual([]);
  await login("203.0.112.7", "not the password");
  expect(await noticesOf(user)).toEqual([]);
  const seen = ["203.0.112.7", "2001:db8:1:2::1"];
  for (const ip of [...seen, "203.0.112.8", "2001:db8:1:ffff::1"])
    expect((await login(ip)).status).toBe(200);
  const notice = { kind: "login_new_network", subject_id: user.userId, api_key_id: null };
  expect(await noticesOf(user)).toEqual(seen.map((ip) => ({ ...notice, ip })));
});

it("writes nothing for a change that did not apply", async () => {
  const user = await newUserWithPassword();
  await apiOf(user).post("/auth/cancel-totp-removal", {});
  await execute("user unfreeze", { email: user.email });
  expect(await noticesOf(user)).toEqual([]);
});
