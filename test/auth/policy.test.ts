import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { freezeUser } from "../../src/auth/freeze-user.ts";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { mintApiKey } from "../../src/auth/mint-key.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, codeOf, settings } from "../support/http.ts";
import { newAsset } from "../support/ledger.ts";
import { command, openRequest, outcomeOf, placeQuote, submit } from "../support/market.ts";
import { newKey, newUser, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

const db = env.DB;
const DAY = { AUTH_SECURITY_DELAY_SECS: "86400" };
const DEFAULTS = {
  sessions_trade: true,
  max_trade_usdc_per_day: null,
  withdraw_max_usdc_per_day: null,
  withdraw_listed_only: false,
  withdraw_approval_above: null,
};
const NEW_KEY = {
  label: "k",
  expiresAt: null,
  allowedIps: null,
  limits: null,
  requireIdempotency: false,
};

const get = async (user: TestUser) => (await apiOf(user).get("/auth/policy")).json;
const set = (user: TestUser, change: object, changes: Record<string, string> = DAY) =>
  apiOf(user, changes).post("/auth/policy", { password: PASSWORD, ...change });
/** Lets the delay of what waits pass. */
const pass = (user: TestUser) =>
  all(
    db,
    sql`UPDATE account_policies SET active_from = active_from - 86400000
      WHERE user_id = ${uuid(user.userId)}`,
  );

describe("the account policy", () => {
  it("has no limits at first", async () => {
    expect(await get(await newUser())).toEqual({
      policy: DEFAULTS,
      pending: null,
      active_from: null,
      used: { trade_usdc: "0x0", withdraw_usdc: "0x0" },
    });
  });

  it("takes stricter values at once and looser ones after the delay", async () => {
    const user = await newUserWithPassword();
    const strict = await set(user, { max_trade_usdc_per_day: "100", withdraw_listed_only: true });
    expect(strict.json).toMatchObject({
      policy: { ...DEFAULTS, max_trade_usdc_per_day: "0x64", withdraw_listed_only: true },
      pending: null,
    });
    const mixed = await set(user, { max_trade_usdc_per_day: "200", withdraw_max_usdc_per_day: 5 });
    expect(mixed.json).toMatchObject({
      policy: { max_trade_usdc_per_day: "0x64", withdraw_max_usdc_per_day: "0x5" },
      pending: { max_trade_usdc_per_day: "0xc8", withdraw_listed_only: true },
    });
    const waits = Date.parse(mixed.json["active_from"]) - Date.now();
    expect(Math.abs(waits - 86_400_000)).toBeLessThan(60_000);
    await pass(user);
    expect(await get(user)).toMatchObject({
      policy: { max_trade_usdc_per_day: "0xc8", withdraw_listed_only: true },
      pending: null,
      active_from: null,
    });
  });

  it("merges another change into the waiting one and restarts the delay", async () => {
    const user = await newUserWithPassword();
    await set(user, { max_trade_usdc_per_day: 1, sessions_trade: false });
    await set(user, { max_trade_usdc_per_day: 2 });
    await all(
      db,
      sql`UPDATE account_policies SET active_from = active_from - 3600000
        WHERE user_id = ${uuid(user.userId)}`,
    );
    const before = Date.parse((await get(user))["active_from"]);
    const { json } = await set(user, { sessions_trade: true });
    expect(json["pending"]).toEqual({ ...DEFAULTS, max_trade_usdc_per_day: "0x2" });
    expect(Date.parse(json["active_from"])).toBeGreaterThan(before);
    const dropped = await set(user, { sessions_trade: false, max_trade_usdc_per_day: 1 });
    expect(dropped.json).toMatchObject({ pending: null, active_from: null });
  });

  it("keeps one of two changes at once from undoing the other", async () => {
    const user = await newUserWithPassword();
    const changes = [{ max_trade_usdc_per_day: 7 }, { withdraw_max_usdc_per_day: 8 }];
    const responses = await Promise.all(changes.map((change) => set(user, change)));
    expect(responses.map(({ status }) => status)).toEqual([200, 200]);
    expect((await get(user))["policy"]).toMatchObject({
      max_trade_usdc_per_day: "0x7",
      withdraw_max_usdc_per_day: "0x8",
    });
  });

  it("is cancelled as far as it waits by a freeze", async () => {
    const user = await newUserWithPassword();
    await set(user, { max_trade_usdc_per_day: 1 });
    await set(user, { max_trade_usdc_per_day: null });
    await freezeUser(db, { userId: user.userId, operator: "test" });
    const rows = await all(
      db,
      sql`SELECT max_trade_usdc_per_day AS amount FROM account_policies
        WHERE user_id = ${uuid(user.userId)}`,
    );
    expect(rows).toEqual([{ amount: 1 }]);
  });

  it("changes with the password only, and is an audit event", async () => {
    const user = await newUserWithPassword();
    const wrong = await set(user, { password: "not the password", sessions_trade: false });
    expect(await codeOf(wrong)).toBe("401 login_failed");
    expect(await codeOf(await set(user, { sessions_trade: 1 }))).toBe("400 invalid_request");
    expect(await get(user)).toMatchObject({ policy: DEFAULTS });
    await set(user, { withdraw_listed_only: true });
    const { items } = (await apiOf(user).get("/auth/get-audit-events")).json as any;
    expect(items[0]).toMatchObject({ kind: "policy_changed", actor: "session" });
    const key = await newKey(user);
    expect((await apiOf(key).get("/auth/policy")).status).toBe(200);
  });

  it("needs TOTP for approvals", async () => {
    const user = await newUserWithPassword();
    const response = await set(user, { withdraw_approval_above: 0 });
    expect(await codeOf(response)).toBe("409 totp_not_enabled");
  });
});

describe("sessions_trade", () => {
  it("leaves sessions with read only, and keys as they are", async () => {
    const user = await newUserWithPassword();
    const { actor } = user;
    await set(user, { sessions_trade: false });
    forgetAllCredentials();
    const api = apiOf(user);
    expect((await api.get("/auth/whoami")).json["scopes"]).toEqual(["read"]);
    const { key: book, ...asset } = newAsset();
    const asked = { ...asset, amount: 1, side: "Bid" };
    expect(await codeOf(await api.post("/rfq/request", asked))).toBe("403 scope_missing");
    const minted = await api.post("/auth/api-keys", { label: "k", scopes: ["trade"] });
    expect(await codeOf(minted)).toBe("403 scope_missing");
    const key = await newKey(user, ["read", "trade"]);
    expect((await apiOf(key).post("/rfq/request", asked)).status).toBe(201);
    // A session whose scopes were read a moment ago.
    const late = await submit(command.openRequest({ actor }, book, { amount: 1n }));
    expect(outcomeOf(late)).toBe("scope_missing");
    const trading = { ...NEW_KEY, scopes: ["trade"] } as const;
    const lateKey = mintApiKey(db, settings(), { actor, ip: undefined, key: trading });
    await expect(lateKey).rejects.toMatchObject({ data: { code: "scope_missing" } });
  });

  it("is not the reason if the quote of a key is rejected", async () => {
    const { key: book } = newAsset();
    const user = await newUserWithPassword();
    await set(user, { sessions_trade: false, max_trade_usdc_per_day: 0 });
    const request = await openRequest(await newUser({ usdc: 1n }), book, { amount: 1n });
    const quote = command.placeQuote(await newKey(user, ["trade"]), request.request_id, 1);
    expect(outcomeOf(await submit(quote))).toBe("account_limit");
  });
});

describe("max_trade_usdc_per_day", () => {
  it("bounds the accepts and quotes of all credentials together", async () => {
    const { key: book } = newAsset();
    const user = await newUserWithPassword({ usdc: 1_000n, [book]: 1_000n });
    const other = await newUser({ usdc: 1_000n, [book]: 1_000n });
    await set(user, { max_trade_usdc_per_day: 100 });
    const key = await newKey(user, ["read", "trade"]);
    const quoteFor = async (amount: bigint) => {
      const request = await openRequest(user, book, { amount });
      return placeQuote(other, request.request_id, 1_000_000, 300);
    };
    const accept = async (by: { actor: TestUser["actor"] | typeof key.actor }, amount: bigint) =>
      submit(command.accept(by, (await quoteFor(amount)).quote_id));
    expect(outcomeOf(await accept(user, 60n))).toBe("ok");
    expect(await accept(key, 41n)).toMatchObject({
      ok: false,
      problem: {
        code: "account_limit",
        extensions: {
          limit: "max_trade_usdc_per_day",
          maximum: "0x64",
          used: "0x3c",
          required: "0x29",
        },
      },
    });
    const request = await openRequest(other, book, { amount: 30n });
    const quote = command.placeQuote(key, request.request_id, 1);
    expect(outcomeOf(await submit(quote))).toBe("ok");
    expect((await get(user))["used"]).toMatchObject({ trade_usdc: "0x5a" });
    expect(outcomeOf(await submit(command.placeQuote(user, request.request_id, 1)))).toBe(
      "account_limit",
    );
    expect(outcomeOf(await accept(key, 11n))).toBe("account_limit");
    expect(outcomeOf(await accept(key, 10n))).toBe("ok");
    // The quote that is replaced is not counted, and after a day neither is a trade.
    const again = { ...command.placeQuote(key, request.request_id, 2), replaces: quote.quoteId };
    const limit = (usdc: number) =>
      all(
        db,
        sql`UPDATE account_policies SET max_trade_usdc_per_day = ${usdc}
          WHERE user_id = ${uuid(user.userId)}`,
      );
    await limit(99);
    expect(await submit(again)).toMatchObject({
      problem: { code: "account_limit", extensions: { used: "0x46", required: "0x1e" } },
    });
    await limit(100);
    expect(outcomeOf(await submit(again))).toBe("ok");
    await all(
      db,
      sql`UPDATE traded_hours SET hour = hour - 24 WHERE subject = ${uuid(user.userId)}`,
    );
    expect(outcomeOf(await submit(command.placeQuote(user, request.request_id, 1)))).toBe("ok");
  });
});
