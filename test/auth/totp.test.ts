/** The second factor: enrolment, login, step-up, removal, and what a thief can guess. */
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { MAX_ENROLMENT_CODES } from "../../src/auth/enrol-totp.ts";
import { trimTotp } from "../../src/auth/remove-totp.ts";
import { rewrapKeys } from "../../src/auth/rewrap-keys.ts";
import { CODE_LIMITS } from "../../src/auth/second-factor.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { anyIp, apiOf, codeOf, send, settings } from "../support/http.ts";
import { codeOfStep, enrol, freshCode, moveTotp, presentStep } from "../support/totp.ts";
import { newUser, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 20_000 });

const login = (
  user: TestUser,
  more: Record<string, unknown> = {},
  { ip = anyIp(), password = PASSWORD } = {},
) =>
  send("/auth/login", {
    method: "POST",
    headers: { "cf-connecting-ip": ip },
    body: JSON.stringify({ email: user.email, password, ...more }),
  });
const whoami = async (user: TestUser) => {
  forgetAllCredentials();
  return (await apiOf(user).get("/auth/whoami")).json["totp"];
};
const wrongCode = (secret: string) => {
  const valid = [-1, 0, 1, 2].map((more) => codeOfStep(secret, presentStep() + more));
  return ["000000", "111111", "222222", "333333", "444444"].find((code) => !valid.includes(code));
};
const alertOf = async ({ userId }: TestUser) =>
  (await first<{ kind: string }>(env.DB, sql`SELECT kind FROM alerts WHERE subject = ${userId}`))
    ?.kind;
const kindsOf = async (user: TestUser) =>
  (await apiOf(user).get("/auth/get-audit-events")).json["items"].map(
    ({ kind }: { kind: string }) => kind,
  );

it("asks for the code at login only after the right password", async () => {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  expect(await whoami(user)).toEqual({
    enabled: true,
    recovery_codes_left: 10,
    removal_at: null,
    replacement_at: null,
  });
  const wrong = await login(user, {}, { password: "not the password" });
  expect(await codeOf(wrong)).toBe("401 login_failed");
  expect(await codeOf(await login(user))).toBe("401 totp_required");
  expect(await codeOf(await login(user, { totp_code: wrongCode(secret) }))).toBe(
    "401 totp_invalid",
  );
  expect((await login(user, { totp_code: await freshCode(user, secret) })).status).toBe(200);
  expect(await kindsOf(user)).toEqual(["login", "login_failed", "totp_enabled", "totp_requested"]);
});

it("accepts a code once, and no code of an earlier step after it", async () => {
  const user = await newUserWithPassword();
  const { secret, step } = await enrol(user);
  const used = { totp_code: codeOfStep(secret, step) };
  expect(await codeOf(await login(user, used))).toBe("401 totp_invalid");
  const next = { totp_code: codeOfStep(secret, step + 1) };
  const both = await Promise.all([login(user, next), login(user, next)]);
  expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 401]);
  const earlier = { totp_code: codeOfStep(secret, step) };
  expect(await codeOf(await login(user, earlier))).toBe("401 totp_invalid");
});

it("accepts each recovery code once", async () => {
  const user = await newUserWithPassword();
  const { codes } = await enrol(user);
  const code = { recovery_code: codes[3]?.toLowerCase() };
  expect((await login(user, code)).status).toBe(200);
  expect(await codeOf(await login(user, code))).toBe("401 totp_invalid");
  expect(await whoami(user)).toMatchObject({ recovery_codes_left: 9 });
  expect(await kindsOf(user)).toContain("recovery_code_used");
  const combined = await login(user, { ...code, totp_code: "123456" });
  expect(await codeOf(combined)).toBe("400 invalid_request");
});

it("bounds guesses, and keeps the owner able to log in", async () => {
  const user = await newUserWithPassword();
  const { secret, codes } = await enrol(user);
  const home = { ip: anyIp() };
  const known = await login(user, { totp_code: await freshCode(user, secret) }, home);
  expect(known.status).toBe(200);
  const guess = { totp_code: wrongCode(secret) };
  await all(
    env.DB,
    sql`WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n
        WHERE i < ${CODE_LIMITS.perUser})
      INSERT INTO totp_attempts SELECT randomblob(16), ${uuid(user.userId)}, 'v4:' || i,
        unixepoch() * 1000 FROM n`,
  );
  expect(await codeOf(await login(user, guess))).toBe("401 totp_invalid");
  const right = { totp_code: await freshCode(user, secret) };
  const stranger = await login(user, right);
  expect(await codeOf(stranger)).toBe("429 login_throttled");
  expect(Number(stranger.headers.get("retry-after"))).toBeGreaterThan(3_000);
  expect((await login(user, right, home)).status).toBe(200);
  // Nobody guesses a recovery code, so the owner is let in from anywhere.
  const wrong = { recovery_code: "a".repeat(16) };
  for (let tried = 0; tried <= CODE_LIMITS.perUser; tried++)
    expect(await codeOf(await login(user, wrong))).toBe("401 totp_invalid");
  expect((await login(user, { recovery_code: codes[0] })).status).toBe(200);
});

it("does not count a wrong recovery code against the codes of the device", async () => {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  const [one, other] = [{ ip: anyIp() }, { ip: anyIp() }];
  for (let guess = 0; guess < CODE_LIMITS.perUser; guess++)
    await login(user, { recovery_code: "a".repeat(16) }, guess % 2 === 0 ? one : other);
  expect((await login(user, { totp_code: await freshCode(user, secret) })).status).toBe(200);
});

it("counts parallel guesses before it verifies them", async () => {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  const mint = () =>
    apiOf(user).post("/auth/api-keys", {
      label: "bot",
      scopes: ["trade"],
      totp_code: wrongCode(secret),
    });
  const answers = await Promise.all(Array.from({ length: 3 * CODE_LIMITS.perUser }, mint));
  const codes = await Promise.all(answers.map(codeOf));
  expect(codes.filter((code) => code === "401 totp_invalid")).toHaveLength(CODE_LIMITS.perUser);
  expect(new Set(codes)).toEqual(new Set(["401 totp_invalid", "429 login_throttled"]));
});

it("does not count a repeated right code as wrong", async () => {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  const used = { totp_code: await freshCode(user, secret) };
  const home = { ip: anyIp() };
  expect((await login(user, used, home)).status).toBe(200);
  for (let repeat = 0; repeat <= CODE_LIMITS.perNetwork; repeat++)
    expect(
      await codeOf(
        await apiOf(user).post("/auth/api-keys", { label: "bot", scopes: ["trade"], ...used }),
      ),
    ).toBe("401 totp_invalid");
  expect(
    await all(env.DB, sql`SELECT 1 FROM totp_attempts WHERE user_id = ${uuid(user.userId)}`),
  ).toEqual([]);
});

it("takes a code for keys that trade, and for step-up", async () => {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  const mint = (scopes: string[], totp_code?: string) =>
    apiOf(user).post("/auth/api-keys", { label: "bot", scopes, totp_code });
  expect((await mint(["read"])).status).toBe(201);
  expect(await codeOf(await mint(["read", "trade"]))).toBe("401 totp_required");
  expect((await mint(["trade"], await freshCode(user, secret))).status).toBe(201);
  const change = (more: object) =>
    apiOf(user).post("/auth/change-password", {
      password: PASSWORD,
      new_password: "an even better horse battery",
      revoke_keys: false,
      ...more,
    });
  expect(await codeOf(await change({}))).toBe("401 totp_required");
  expect((await change({ totp_code: await freshCode(user, secret) })).status).toBe(200);
});

const DAY = { AUTH_SECURITY_DELAY_SECS: "86400" };
/** Asks for another device and confirms it. */
const replace = async (user: TestUser, given: object, token = user.token) => {
  const api = apiOf({ token }, DAY);
  const { status, json } = await api.post("/auth/totp", { password: PASSWORD, ...given });
  if (status !== 201) return { secret: "", status, confirmed: json };
  const totp_code = codeOfStep(json["secret"], presentStep());
  const confirmed = await api.post("/auth/confirm-totp", { totp_code });
  forgetAllCredentials();
  return { secret: String(json["secret"]), status: confirmed.status, confirmed: confirmed.json };
};
const codeFor = async (user: TestUser, secret: string) => ({
  totp_code: await freshCode(user, secret),
});
/** Lets a day pass for what waits. */
const passDay = (user: TestUser, codes: readonly string[] = []) =>
  moveTotp(user, 86_400_000, codes);

it("lets the old device and its recovery codes count until a replacement does", async () => {
  const user = await newUserWithPassword();
  const old = await enrol(user);
  expect((await replace(user, {})).confirmed).toMatchObject({ code: "totp_required" });
  const { secret, confirmed } = await replace(user, await codeFor(user, old.secret));
  const { active_from: from, recovery_codes: codes } = confirmed;
  expect(Math.abs(Date.parse(from) - Date.now() - 86_400_000)).toBeLessThan(60_000);
  expect(await whoami(user)).toMatchObject({ recovery_codes_left: 10, replacement_at: from });
  const invalid = "401 totp_invalid";
  expect(await codeOf(await login(user, await codeFor(user, secret)))).toBe(invalid);
  expect(await codeOf(await login(user, { recovery_code: codes[0] }))).toBe(invalid);
  expect((await login(user, await codeFor(user, old.secret))).status).toBe(200);
  expect((await login(user, { recovery_code: old.codes[0] })).status).toBe(200);
  await passDay(user, [...old.codes, ...codes]);
  expect(await codeOf(await login(user, await codeFor(user, old.secret)))).toBe(invalid);
  expect(await codeOf(await login(user, { recovery_code: old.codes[1] }))).toBe(invalid);
  expect((await login(user, await codeFor(user, secret))).status).toBe(200);
  expect((await login(user, { recovery_code: codes[0] })).status).toBe(200);
  expect(await whoami(user)).toMatchObject({ recovery_codes_left: 9, replacement_at: null });
  // The next one replaces the second device, which counts until then.
  const third = await replace(user, await codeFor(user, secret));
  expect((await login(user, await codeFor(user, secret))).status).toBe(200);
  await passDay(user);
  expect((await login(user, await codeFor(user, third.secret))).status).toBe(200);
  expect(await codeOf(await login(user, await codeFor(user, secret)))).toBe(invalid);
});

it.each([
  ["any session", "/auth/cancel-totp-removal", PASSWORD],
  ["a change of the password", "/auth/change-password", "an even better horse battery"],
])("cancels a replacement by %s", async (_, path, password) => {
  const user = await newUserWithPassword();
  const old = await enrol(user);
  const { secret } = await replace(user, await codeFor(user, old.secret));
  const change = { password: PASSWORD, new_password: password, revoke_keys: false };
  const body = password === PASSWORD ? {} : { ...change, ...(await codeFor(user, old.secret)) };
  expect((await apiOf(user).post(path, body)).status).toBe(200);
  await passDay(user, old.codes);
  const ofNew = await login(user, await codeFor(user, secret), { password });
  expect(await codeOf(ofNew)).toBe("401 totp_invalid");
  expect((await login(user, await codeFor(user, old.secret), { password })).status).toBe(200);
  expect((await login(user, { recovery_code: old.codes[0] }, { password })).status).toBe(200);
});

it("replaces the device at once with a recovery code, and holds the account", async () => {
  const user = await newUserWithPassword();
  const old = await enrol(user);
  const { secret, confirmed } = await replace(user, { recovery_code: old.codes[0] });
  expect(confirmed).toMatchObject({ active_from: null });
  expect(await codeOf(await login(user, await codeFor(user, old.secret)))).toBe("401 totp_invalid");
  expect(await codeOf(await login(user, { recovery_code: old.codes[1] }))).toBe("401 totp_invalid");
  const session = await (
    await login(user, await codeFor(user, secret))
  ).json<{ scopes: string[] }>();
  expect(session.scopes).toEqual(["read"]);
});

it("ends an enrolment after ten minutes and after ten wrong codes", async () => {
  const user = await newUserWithPassword();
  const confirm = (totp_code: string) => apiOf(user).post("/auth/confirm-totp", { totp_code });
  expect(await codeOf(await confirm("123456"))).toBe("401 totp_invalid");
  const start = async () =>
    String((await apiOf(user).post("/auth/totp", { password: PASSWORD })).json["secret"]);
  const late = await start();
  await all(
    env.DB,
    sql`UPDATE totp_secrets SET ends_at = ends_at - 600000 WHERE user_id = ${uuid(user.userId)}`,
  );
  expect(await codeOf(await confirm(codeOfStep(late, presentStep())))).toBe("401 totp_invalid");
  const guessed = await start();
  for (let count = 0; count < MAX_ENROLMENT_CODES; count++) await confirm(wrongCode(guessed) ?? "");
  expect(await codeOf(await confirm(codeOfStep(guessed, presentStep())))).toBe("401 totp_invalid");
  expect(await whoami(user)).toMatchObject({ enabled: false });
});

it("removes TOTP after the delay, unless it is cancelled", async () => {
  const user = await newUserWithPassword();
  const { secret, codes } = await enrol(user);
  const api = apiOf(user, { AUTH_SECURITY_DELAY_SECS: "86400" });
  const remove = (more: object) => api.post("/auth/remove-totp", { password: PASSWORD, ...more });
  expect(await codeOf(await remove({}))).toBe("401 totp_required");
  const { json } = await remove({ totp_code: await freshCode(user, secret) });
  const removalAt = Date.parse(json["removal_at"]);
  expect(removalAt - Date.now()).toBeGreaterThan(86_390_000);
  expect(await whoami(user)).toMatchObject({ enabled: true, removal_at: json["removal_at"] });
  // A second request does not postpone the first.
  expect((await remove({ recovery_code: codes[0] })).json).toEqual(json);
  expect(await codeOf(await login(user))).toBe("401 totp_required");
  const cancelled = await api.post("/auth/cancel-totp-removal", {});
  expect(cancelled.json).toMatchObject({ enabled: true, removal_at: null });
  expect((await api.post("/auth/cancel-totp-removal", {})).status).toBe(200);
  const again = await remove({ recovery_code: codes[1] });
  expect(Date.parse(again.json["removal_at"])).toBeGreaterThan(removalAt);
  await all(
    env.DB,
    sql`UPDATE totp_secrets SET ends_at = ends_at - 86400000 - 3600000
      WHERE user_id = ${uuid(user.userId)}`,
  );
  expect((await login(user)).status).toBe(200);
  expect(await whoami(user)).toMatchObject({
    enabled: false,
    recovery_codes_left: 0,
    removal_at: null,
  });
  expect(await codeOf(await remove({}))).toBe("409 totp_not_enabled");
  await trimTotp(env.DB);
  const left = await first<{ n: number }>(
    env.DB,
    sql`SELECT (SELECT count(*) FROM totp_secrets WHERE user_id = ${uuid(user.userId)})
      + (SELECT count(*) FROM recovery_codes WHERE user_id = ${uuid(user.userId)}) AS n`,
  );
  expect(left?.n).toBe(0);
});

it("does not use up a recovery code of a frozen user", async () => {
  const user = await newUserWithPassword();
  const { codes } = await enrol(user);
  await all(env.DB, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(user.userId)}`);
  expect(await codeOf(await login(user, { recovery_code: codes[0] }))).toBe("403 account_frozen");
  await all(env.DB, sql`UPDATE users SET frozen_at = NULL WHERE user_id = ${uuid(user.userId)}`);
  expect((await login(user, { recovery_code: codes[0] })).status).toBe(200);
});

it("opens a sealed secret for no other user and not before its confirmation", async () => {
  const [owner, thief] = [await newUserWithPassword(), await newUser()];
  const { secret } = await enrol(owner);
  const moved = sql`INSERT INTO totp_secrets (user_id, status, secret_sealed, master_key_id, last_step,
      wrong_codes, created_at, ends_at) SELECT ${uuid(thief.userId)}, status, secret_sealed,
      master_key_id, 0, 0, created_at, ends_at
    FROM totp_secrets WHERE user_id = ${uuid(owner.userId)}`;
  await all(env.DB, moved);
  const mint = await apiOf(thief).post("/auth/api-keys", {
    label: "bot",
    scopes: ["trade"],
    totp_code: codeOfStep(secret, presentStep()),
  });
  expect(await codeOf(mint)).toBe("401 totp_invalid");
  expect(await alertOf(thief)).toBe("key_row_altered");
  const pending = await newUserWithPassword();
  await apiOf(pending).post("/auth/totp", { password: PASSWORD });
  await all(
    env.DB,
    sql`UPDATE totp_secrets SET status = 'confirmed' WHERE user_id = ${uuid(pending.userId)}`,
  );
  expect(await codeOf(await login(pending, { totp_code: "123456" }))).toBe("401 totp_invalid");
  expect(await alertOf(pending)).toBe("key_row_altered");
});

it("rewraps secrets with the newest master key", async () => {
  const user = await newUserWithPassword();
  const { secret: earlier } = await enrol(user);
  const { secret } = await replace(user, await codeFor(user, earlier));
  const { m1 = "" } = settings().MASTER_KEYS;
  const m2 = "a-new-master-key-0123456789-0123456789";
  await rewrapKeys(env.DB, settings({ MASTER_KEYS: { m2, m1 } }), "test");
  const row = await first<{ id: string; next: string }>(
    env.DB,
    sql`SELECT master_key_id AS id, next_master_key_id AS next FROM totp_secrets
      WHERE user_id = ${uuid(user.userId)}`,
  );
  expect(row).toEqual({ id: "m2", next: "m2" });
  await rewrapKeys(env.DB, settings({ MASTER_KEYS: { m1, m2 } }), "test");
  expect((await login(user, await codeFor(user, earlier))).status).toBe(200);
  await passDay(user);
  expect((await login(user, { totp_code: await freshCode(user, secret) })).status).toBe(200);
});
