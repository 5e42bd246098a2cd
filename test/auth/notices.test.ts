/** Every change of who may act for a user is an audit event and a notice on their stream. */
import { env } from "cloudflare:workers";
import { describe, expect, it, vi } from "vitest";
import { NOTICE_GIVEN } from "../../src/audit/audit.ts";
import { MAX_NEW_PER_DAY } from "../../src/auth/key-networks.ts";
import { KNOWN_NETWORK_MS, trimLoginAttempts } from "../../src/auth/login-throttle.ts";
import {
  kindsOf as formsByCode,
  readEvent,
  type StoredEvent,
} from "../../src/platform/event-forms.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { accountStream } from "../../src/streams/event-log.ts";
import { anyIp, apiOf, send, sendSigned } from "../support/http.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { connect } from "../support/sockets.ts";
import { enrol, freshCode } from "../support/totp.ts";
import {
  newKey,
  newUser,
  newUserWithPassword,
  PASSWORD,
  type TestKey,
  type TestUser,
} from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 30_000 });

async function noticesOf({ userId }: { userId: string }): Promise<Record<string, unknown>[]> {
  const rows = await all<StoredEvent>(
    env.DB,
    sql`SELECT e.ids, e.body FROM stream_events e JOIN streams s ON s.stream_id = e.stream_id
      WHERE s.name = ${accountStream(userId)} AND e.type = 'account.notice' ORDER BY e.seq`,
  );
  return rows.map((event) => readEvent(formsByCode(NOTICE_GIVEN), event).row);
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

it("reports a login after 30 days without one, from a network of before too", async () => {
  const user = await newUserWithPassword();
  const login = (ip: string) =>
    send("/auth/login", {
      method: "POST",
      headers: { "cf-connecting-ip": ip },
      body: JSON.stringify({ email: user.email, password: PASSWORD }),
    });
  const rest = async () => {
    await all(
      env.DB,
      sql`UPDATE login_networks SET at = at - ${KNOWN_NETWORK_MS}
        WHERE user_id = ${uuid(user.userId)}`,
    );
    await trimLoginAttempts(env.DB);
  };
  await login("203.0.113.7");
  for (const ip of ["203.0.112.7", "203.0.112.7"]) {
    await rest();
    expect((await login(ip)).status).toBe(200);
  }
  expect(await kindsOf(user)).toEqual(["login_new_network", "login_new_network"]);
});

it("sends the notice of a login from a new network at once to open sockets", async () => {
  const user = await newUserWithPassword();
  const login = (ip: string) =>
    send("/auth/login", {
      method: "POST",
      headers: { "cf-connecting-ip": ip },
      body: JSON.stringify({ email: user.email, password: PASSWORD }),
    });
  await login("203.0.113.7");
  const subscriber = await connect(user, accountStream(user.userId));
  await login("203.0.112.7");
  const { data } = await subscriber.until("account.notice");
  expect(data).toMatchObject({ kind: "login_new_network", ip: "203.0.112.7" });
});

describe("a key's use from a network that is new to the key", () => {
  const use = async (key: TestKey, ip: string) => {
    const response = await sendSigned(key, "/auth/whoami", { headers: { "cf-connecting-ip": ip } });
    expect(response.status).toBe(200);
  };

  it("is reported once, at once, and not for its first network", async () => {
    const user = await newUser();
    const key = await newKey(user, ["read"]);
    for (const ip of ["203.0.113.7", "203.0.113.250"]) await use(key, ip);
    const subscriber = await connect(user, accountStream(user.userId));
    await use(key, "2001:db8:1:2::1");
    const { data } = await subscriber.until("account.notice");
    expect(data).toEqual({
      kind: "api_key_new_network",
      subject_id: key.apiKeyId,
      api_key_id: key.apiKeyId,
      ip: "2001:db8:1:2::1",
    });
    for (const ip of ["2001:db8:1:ffff::1", "203.0.113.9"]) await use(key, ip);
    expect(await kindsOf(user)).toEqual(["api_key_created", "api_key_new_network"]);
  });

  it("reads and writes nothing more of a network that the isolate has seen", async () => {
    const key = await newKey(await newUser(), ["read"]);
    const ip = "203.0.113.7";
    await use(key, ip);
    await all(
      env.DB,
      sql`UPDATE api_keys SET networks = NULL
      WHERE api_key_id = ${uuid(key.apiKeyId)}`,
    );
    await use(key, ip);
    expect(await networksOf(key)).toBeNull();
  });

  it("is reported at most five times a day, from any number of networks", async () => {
    const user = await newUser();
    const key = await newKey(user, ["read"]);
    for (let network = 0; network < 12; network++) await use(key, `198.51.${network}.1`);
    const kinds = (await kindsOf(user)).filter((kind) => kind === "api_key_new_network");
    // The first network counts, and is not reported.
    expect(kinds).toHaveLength(MAX_NEW_PER_DAY - 1);
    expect(Object.keys(JSON.parse((await networksOf(key)) ?? "{}"))).toHaveLength(MAX_NEW_PER_DAY);
  });

  const networksOf = async ({ apiKeyId }: TestKey): Promise<string | null> =>
    (
      await first<{ networks: string | null }>(
        env.DB,
        sql`SELECT networks FROM api_keys WHERE api_key_id = ${uuid(apiKeyId)}`,
      )
    )?.networks ?? null;
});

it("writes nothing for a change that did not apply", async () => {
  const user = await newUserWithPassword();
  await apiOf(user).post("/auth/cancel-totp-removal", {});
  await execute("user unfreeze", { email: user.email });
  expect(await noticesOf(user)).toEqual([]);
});
