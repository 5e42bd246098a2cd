import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import {
  admitLogin,
  beginAttempt,
  KNOWN_NETWORK_MS,
  LOGIN_LIMITS,
  rememberNetwork,
  trimLoginAttempts,
} from "../../src/auth/login-throttle.ts";
import { login, register } from "../../src/auth/login.ts";
import { issueSession, readSession } from "../../src/auth/session.ts";
import { freezeUser, unfreezeUser } from "../../src/auth/freeze-user.ts";
import { networkOf } from "../../src/http/ip-range.ts";
import { commitOrThrow, newGroup } from "../../src/platform/commit.ts";
import { config } from "../../src/platform/config.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, first, sql, TRUE, uuid } from "../../src/platform/sql.ts";
import { countingCalls } from "../support/counting-database.ts";
import { anyIp, bearer, codeOf, problemOf, send, sendSigned, settings } from "../support/http.ts";
import { withServiceHashes } from "../support/hash-cost.ts";
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
    "login_new_network",
    "login",
    "user_created",
  ]);
});

it("takes spellings of one address for one, and refuses invisible letters", async () => {
  const name = crypto.randomUUID();
  const registering = async (email: string) =>
    codeOf(await post("/auth/register", { email, password: PASSWORD }));
  const stored = `a${name}@bücher.test`;
  expect((await post("/auth/register", { email: stored, password: PASSWORD })).status).toBe(201);
  for (const same of [
    `ａ${name}@bücher.test`,
    `a${name}@BÜCHER.test.`,
    `a${name}@xn--bcher-kva.test`,
  ]) {
    expect([same, await registering(same)]).toEqual([same, "409 email_taken"]);
    expect((await post("/auth/login", { email: same, password: PASSWORD })).status).toBe(200);
  }
  for (const bad of [
    `a${name}\u200b@x.test`,
    `a\u3164${name}@x.test`,
    `a${name}@x\u2044.test`,
    `a${name}@x.test\u115f`,
    `a${name}@\u00adx.test`,
  ])
    expect([bad, await registering(bad)]).toEqual([bad, "400 invalid_request"]);
});

it("rejects registration if the setting closes it", async () => {
  const credentials = { email: anyEmail(), password: PASSWORD, ip: anyIp() };
  expect(
    await problemCode(register(env.DB, settings({ AUTH_REGISTRATION: "closed" }), credentials)),
  ).toBe("registration_closed");
});

it("limits the accounts that one network registers in 24 hours", async () => {
  const limited = settings({ AUTH_DAILY_REGISTRATIONS: 2 });
  const from = (ip: string) =>
    problemCode(register(env.DB, limited, { email: anyEmail(), password: PASSWORD, ip }));
  for (const [one, same, other] of [
    ["2001:db8:cc:1::1", "2001:db8:cc:2::1", "2001:db8:cd:1::1"],
    // In hexadecimal without leading zeros, the last would be a prefix of the first.
    ["16.32.48.65", "16.32.48.65", "1.2.3.4"],
  ] as const) {
    expect([await from(one), await from(same)]).toEqual(["no error", "no error"]);
    expect([await from(one), await from(same)]).toEqual(["daily_limit", "daily_limit"]);
    expect(await from(other)).toBe("no error");
  }
  await all(
    env.DB,
    sql`UPDATE users SET created_at = created_at - 86400000 WHERE user_id IN
      (SELECT user_id FROM login_networks WHERE network = ${networkOf("16.32.48.65")})`,
  );
  expect(await from("16.32.48.65")).toBe("no error");
}, 60_000);

it("treats an unknown email like a wrong password", () =>
  withServiceHashes(async () => {
    const before = Date.now();
    const response = await post("/auth/login", { email: anyEmail(), password: PASSWORD });
    expect(await codeOf(response)).toBe("401 login_failed");
    expect(Date.now() - before).toBeGreaterThan(50);
  }));

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
  const whoami = () => send("/auth/whoami", { headers: bearer(token) });
  expect(await problemOf(await whoami())).toMatchObject({
    code: "account_frozen",
    frozen_by: "operator",
  });
  expect(await unfreezeUser(env.DB, { userId, operator: "test" })).toBe(true);
  forgetAllCredentials();
  expect(await codeOf(await whoami())).toBe("401 session_invalid");
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

it("accepts one spelling of a token only", async () => {
  const { accessToken } = await issueSession(settings(), {
    userId: (await newUser()).userId,
    epoch: 0,
  });
  const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const last = letters.indexOf(accessToken.at(-1) ?? "");
  for (const unusedBits of [1, 2, 3]) {
    const other = `${accessToken.slice(0, -1)}${letters[last ^ unusedBits]}`;
    expect(await problemCode(readSession(settings(), `Bearer ${other}`, Date.now()))).toBe(
      "session_invalid",
    );
  }
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

it("ends all sessions, and revokes and audits every key unless told otherwise", async () => {
  const user = await newUser();
  const other = (await issueSession(settings(), { userId: user.userId, epoch: 0 })).accessToken;
  const keys = [await newKey(user, ["read"]), await newKey(user, ["read"])];
  await send("/auth/whoami", { headers: bearer(other) });
  for (const key of keys) await sendSigned(key, "/auth/whoami");
  const end = (query: string, token: string) =>
    send(`/auth/sessions${query}`, { method: "DELETE", headers: bearer(token) });
  const kept = await newUser();
  const keptKey = await newKey(kept, ["read"]);
  expect((await end("?revoke_keys=false", kept.token)).status).toBe(200);
  expect((await sendSigned(keptKey, "/auth/whoami")).status).toBe(200);
  expect((await end("", user.token)).status).toBe(200);
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
      problemCode(beginAttempt(env.DB, settings(), { email, clientIp: ip })),
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
    await Promise.all(
      Array.from({ length: 5 }, () =>
        beginAttempt(env.DB, settings(), { email: user.email, clientIp: ip }),
      ),
    );
  }
  const stranger = anyIp();
  for (let guess = 0; guess < LOGIN_LIMITS.underAttack; guess++)
    await beginAttempt(env.DB, settings(), { email: user.email, clientIp: stranger });
  expect(
    await problemCode(beginAttempt(env.DB, settings(), { email: user.email, clientIp: stranger })),
  ).toBe("login_throttled");
  expect(
    await problemCode(beginAttempt(env.DB, settings(), { email: user.email, clientIp: anyIp() })),
  ).toBe("no error");
});

it("limits failed logins of one network on many emails", async () => {
  const ip = anyIp();
  for (let tried = 0; tried < LOGIN_LIMITS.perNetwork; tried += 10) {
    await Promise.all(
      Array.from({ length: 10 }, () =>
        beginAttempt(env.DB, settings(), { email: anyEmail(), clientIp: ip }),
      ),
    );
  }
  expect(
    await problemCode(beginAttempt(env.DB, settings(), { email: anyEmail(), clientIp: ip })),
  ).toBe("login_throttled");
});

it("makes three calls of D1: admission, attempt and outcome", async () => {
  const email = anyEmail();
  const ip = anyIp();
  await register(env.DB, settings(), { email, password: PASSWORD, ip });
  for (const password of [PASSWORD, "wrong"]) {
    const { db, count } = countingCalls();
    await login(db, settings(), { email, password, ip }).catch(() => {});
    expect(count()).toBe(3);
  }
});

it("limits right passwords per network, so that a thief of one delays nobody else", async () => {
  const credentials = { email: anyEmail(), password: PASSWORD };
  const few = { ...settings(), AUTH_LOGINS_PER_MINUTE: 3 };
  const [thief, owner] = [anyIp(), anyIp()];
  await register(env.DB, few, { ...credentials, ip: owner });
  const logins = (count: number, ip: string) =>
    Promise.all(
      Array.from({ length: count }, () => problemCode(login(env.DB, few, { ...credentials, ip }))),
    );
  // A caller has two places at once.
  expect([...(await logins(2, thief)), ...(await logins(2, thief))].toSorted()).toEqual([
    "login_throttled",
    "no error",
    "no error",
    "no error",
  ]);
  expect(await logins(2, owner)).toEqual(["no error", "no error"]);
  expect(await logins(1, owner)).toEqual(["login_throttled"]);
  await all(env.DB, sql`UPDATE login_attempts SET at = at - 60000`);
  expect(await logins(1, owner)).toEqual(["no error"]);
});

it("clears failures after a successful login", async () => {
  const email = anyEmail();
  const ip = anyIp();
  await register(env.DB, settings(), { email, password: PASSWORD, ip });
  for (let typo = 0; typo < LOGIN_LIMITS.perEmailAndNetwork - 1; typo++)
    await beginAttempt(env.DB, settings(), { email, clientIp: ip });
  await login(env.DB, settings(), { email, password: PASSWORD, ip });
  for (let typo = 0; typo < LOGIN_LIMITS.perEmailAndNetwork; typo++)
    await beginAttempt(env.DB, settings(), { email, clientIp: ip });
  await trimLoginAttempts(env.DB);
  expect(await problemCode(beginAttempt(env.DB, settings(), { email, clientIp: ip }))).toBe(
    "login_throttled",
  );
});

it("throttles a flood of logins without blocking other routes", async () => {
  const flood = Array.from({ length: 16 }, () =>
    post("/auth/login", { email: anyEmail(), password: PASSWORD }, { "cf-connecting-ip": anyIp() }),
  );
  const time = await send("/time");
  expect(time.status).toBe(200);
  const statuses = (await Promise.all(flood)).map((response) => response.status);
  expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(0);
  expect(new Set(statuses)).toEqual(new Set([401, 429]));
}, 30_000);

/** Sends `count` logins with wrong passwords at once, and returns their statuses. */
function floodOf(count: number, caller: (index: number) => { email: string; ip: string }) {
  return Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const { email, ip } = caller(index);
      const headers = { "cf-connecting-ip": ip };
      return (await post("/auth/login", { email, password: "wrong password" }, headers)).status;
    }),
  );
}

const SHARED_IP = "203.0.113.77";
it.each<[name: string, ownersIp: string, flooder: (victim: string, index: number) => object]>([
  ["from many addresses", anyIp(), () => ({ email: anyEmail(), ip: anyIp() })],
  ["from many addresses on the owner's email", anyIp(), (email) => ({ email, ip: anyIp() })],
  [
    "from one IPv6 block",
    anyIp(),
    (_, index) => ({ email: anyEmail(), ip: `2001:db8:77:${index.toString(16)}::1` }),
  ],
  ["from the owner's own address", SHARED_IP, () => ({ email: anyEmail(), ip: SHARED_IP })],
])(
  "leaves the owner's login working during 300 logins at once %s",
  async (_name, ip, flooder) => {
    const email = anyEmail();
    const credentials = { email, password: PASSWORD };
    await register(env.DB, settings(), { ...credentials, ip });
    const caller = (index: number) => flooder(email, index) as { email: string; ip: string };
    const floods: Promise<number[]>[] = [];
    for (let time = 0; time < 3; time++) {
      floods.push(floodOf(100, caller));
      const response = await post("/auth/login", credentials, { "cf-connecting-ip": ip });
      expect(response.status).toBe(200);
    }
    const statuses = (await Promise.all(floods)).flat();
    expect(statuses).toContain(429);
    expect(new Set([...statuses, 401, 429])).toEqual(new Set([401, 429]));
    expect((await post("/auth/login", credentials, { "cf-connecting-ip": ip })).status).toBe(200);
  },
  120_000,
);

it("counts only attempts whose password was hashed", async () => {
  const ip = anyIp();
  const statuses = await floodOf(40, () => ({ email: anyEmail(), ip }));
  const hashed = statuses.filter((status) => status === 401).length;
  expect(hashed).toBeLessThan(40);
  const counted = await first<{ n: number }>(
    env.DB,
    sql`SELECT count(*) AS n FROM login_attempts WHERE network = ${networkOf(ip)}`,
  );
  expect(counted?.n).toBe(hashed);
}, 60_000);

it("exempts a network that logged the user in from the failures of others", async () => {
  const email = anyEmail();
  const ip = anyIp();
  await register(env.DB, settings(), { email, password: PASSWORD, ip });
  for (let tried = 0; tried < LOGIN_LIMITS.perNetwork; tried += 10) {
    await Promise.all(
      Array.from({ length: 10 }, () =>
        beginAttempt(env.DB, settings(), { email: anyEmail(), clientIp: ip }),
      ),
    );
  }
  await expect(
    beginAttempt(env.DB, settings(), { email: anyEmail(), clientIp: ip }),
  ).rejects.toThrow("login_throttled");
  await login(env.DB, settings(), { email, password: PASSWORD, ip });
  // A guess there does not show whether the network is one of the user's.
  const answer = async (guessed: string) => {
    const response = await post(
      "/auth/login",
      { email: guessed, password: "no" },
      { "cf-connecting-ip": ip },
    );
    const headers = [...response.headers.keys()].toSorted();
    return { code: await codeOf(response), headers };
  };
  expect(await answer(email)).toEqual(await answer(anyEmail()));
  expect((await answer(email)).code).toBe("429 login_throttled");
  await login(env.DB, settings(), { email, password: PASSWORD, ip });
  // Guesses on this email still count, whichever network they come from.
  for (let guess = 0; guess < LOGIN_LIMITS.perEmailAndNetwork; guess++)
    await beginAttempt(env.DB, settings(), { email, clientIp: ip });
  expect(await problemCode(beginAttempt(env.DB, settings(), { email, clientIp: ip }))).toBe(
    "login_throttled",
  );
  await all(env.DB, sql`UPDATE login_networks SET at = at - ${KNOWN_NETWORK_MS}`);
  expect((await admitLogin(env.DB, settings(), { email, clientIp: anyIp() })).lane).toBe("other");
});

it("knows a network for 30 days, and the newest 20 of a user", async () => {
  const email = anyEmail();
  const ips = Array.from({ length: 21 }, anyIp);
  const { user_id: userId } = await register(env.DB, settings(), {
    email,
    password: PASSWORD,
    ip: ips[0],
  });
  const lane = async (clientIp: string | undefined) =>
    (await admitLogin(env.DB, settings(), { email, clientIp })).lane;
  expect([await lane(ips[0]), await lane(anyIp()), await lane(undefined)]).toEqual([
    "known",
    "other",
    "other",
  ]);
  await all(
    env.DB,
    sql`UPDATE login_networks SET at = at - ${KNOWN_NETWORK_MS}
    WHERE user_id = ${uuid(userId)}`,
  );
  expect(await lane(ips[0])).toBe("other");
  for (const clientIp of ips) {
    // Else two of them could be as new as each other.
    await all(env.DB, sql`UPDATE login_networks SET at = at - 1 WHERE user_id = ${uuid(userId)}`);
    const group = newGroup();
    await commitOrThrow(env.DB, group, rememberNetwork({ userId, clientIp }, group, TRUE));
  }
  expect([await lane(ips[0]), await lane(ips[1]), await lane(ips[20])]).toEqual([
    "other",
    "known",
    "known",
  ]);
  expect(
    await all(env.DB, sql`SELECT 1 FROM login_networks WHERE user_id = ${uuid(userId)}`),
  ).toHaveLength(20);
});

it("limits the guesses of an IPv6 /48 beside those of its /64s", async () => {
  const email = anyEmail();
  const ip = (index: number) => `2001:db8:aa:${index.toString(16)}::1`;
  for (let index = 0; index < LOGIN_LIMITS.perEmailAndBlock; index++)
    await beginAttempt(env.DB, settings(), { email, clientIp: ip(index) });
  const next = { email, clientIp: ip(0xffff) };
  expect(await problemCode(beginAttempt(env.DB, settings(), next))).toBe("login_throttled");
  expect(
    await problemCode(beginAttempt(env.DB, settings(), { email, clientIp: "2001:db8:ab::1" })),
  ).toBe("no error");
});

it("states how many attempts are left", async () => {
  const email = anyEmail();
  const headers = { "cf-connecting-ip": anyIp() };
  const wrong = async () => post("/auth/login", { email, password: "wrong password" }, headers);
  const response = await wrong();
  expect(response.headers.get("ratelimit-policy")).toBe('"login";q=10;w=900');
  expect(response.headers.get("ratelimit")).toMatch(/^"login";r=9;t=(900|899)$/);
  expect((await wrong()).headers.get("ratelimit")).toMatch(/^"login";r=8;t=\d+$/);
});
