/**
 * What a thief can do at most with each stolen thing, and for how long, as docs/security.md says.
 * The owner has TOTP and a policy. The payer's key opens nothing over HTTP:
 * test/contracts/stolen-payer.ts tries it on the chain.
 */
import { createHash } from "node:crypto";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { anchorAudit } from "../../src/audit/anchor.ts";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { issueSession } from "../../src/auth/session.ts";
import type { KeyLimits } from "../../src/auth/key-limits.ts";
import { all, first, raw, sql, uuid } from "../../src/platform/sql.ts";
import { type Api, apiOf, codeOf, send, settings } from "../support/http.ts";
import { edit, insertWithdrawal, newAddress, newAsset } from "../support/ledger.ts";
import { openRequest, placeQuote } from "../support/market.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { codeOfStep, enrol, freshCode, presentStep } from "../support/totp.ts";
import { newKey, newUser, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 30_000, hookTimeout: 30_000 });

const DAY_MS = 86_400_000;
const DAY = { AUTH_SECURITY_DELAY_SECS: "86400", AUTH_OPERATOR_KEY_DELAY_SECS: "86400" };
const TWO = { ...DAY, OPERATOR_APPROVALS: "2" } as Partial<Env>;

const LIMITS: KeyLimits = { venues: ["venue_one"], maxUsdcPerTrade: 30n, maxUsdcPerDay: 40n };
const POLICY = {
  max_trade_usdc_per_day: 100,
  withdraw_max_usdc_per_day: 50,
  withdraw_listed_only: true,
  withdraw_approval_above: 10,
};
/** What the owner has, of USDC and of a token. The policy permits far less. */
const FUNDS = 1_000n;

type Owner = {
  readonly user: TestUser;
  /** Of TOTP. */
  readonly secret: string;
  /** The only one in the address book. */
  readonly listed: string;
  readonly asset: ReturnType<typeof newAsset>;
  readonly accomplice: TestUser;
};

async function newOwner(): Promise<Owner> {
  const asset = newAsset();
  const user = await newUserWithPassword({ usdc: FUNDS, [asset.key]: FUNDS });
  const accomplice = await newUser({ usdc: FUNDS, [asset.key]: FUNDS });
  const { secret } = await enrol(user);
  const listed = newAddress();
  const api = apiOf(user);
  const stepUp = async () => ({ password: PASSWORD, totp_code: await freshCode(user, secret) });
  const add = { ...(await stepUp()), address: listed, label: "cold" };
  expect((await api.post("/custody/create-withdrawal-address", add)).status).toBe(201);
  const set = { ...(await stepUp()), ...POLICY };
  expect((await api.post("/auth/policy", set)).status).toBe(200);
  return { user, secret, listed, asset, accomplice };
}

type Thing = "session" | "trade key" | "withdraw key";

/** Calls with the stolen thing, and with settings that delay what widens a right for a day. */
async function steal(thing: Thing, { user, secret }: Owner): Promise<Api> {
  if (thing === "session") return apiOf(user, DAY);
  if (thing === "trade key")
    return apiOf(await newKey(user, ["read", "trade"], { limits: LIMITS }), DAY);
  const totpCode = await freshCode(user, secret);
  return apiOf(await newKey(user, ["read", "withdraw"], { totpCode }), DAY);
}

/** Status of a success and of its record, or status and code of a problem. */
async function outcomeOf(response: Awaited<ReturnType<Api["get"]>>): Promise<string> {
  const { status, json } = response;
  return status < 300 ? [status, json["status"]].join(" ").trim() : codeOf(response);
}

/** Sells the accomplice's quote to the owner for an amount of USDC. */
const trade =
  (amount: bigint) =>
  async (thief: Api, { user, asset, accomplice }: Owner) => {
    const request = await openRequest(user, asset.key, { amount });
    const { quote_id } = await placeQuote(accomplice, request.request_id, 1_000_000);
    return thief.post("/rfq/accept", { quote_id });
  };
const withdraw = (amount: number, to: "listed" | "unlisted") => (thief: Api, owner: Owner) =>
  thief.post("/custody/withdraw", {
    client_withdrawal_id: crypto.randomUUID(),
    chain: "local",
    venue_id: owner.asset.venue_id,
    asset_id: owner.asset.asset_id,
    amount,
    to_address: to === "listed" ? owner.listed : newAddress(),
  });
const post = (path: string, body: object) => (thief: Api) => thief.post(path, body);
/** A thief of a session does not have the password. */
const GUESS = { password: "a guess of the password" };
const KEY = { label: "thief", limits: null };

type Act = (thief: Api, owner: Owner) => ReturnType<Api["get"]>;
const sessionOnly = (session: string) => ({
  session,
  "trade key": "403 session_required",
  "withdraw key": "403 session_required",
});

/** In the order in which they are tried. Of each, the outcome with each thing. */
const ACTIONS: readonly [string, Act, Readonly<Record<Thing, string>>][] = [
  [
    "reads the balance",
    (thief) => thief.get("/custody/get-usdc-balance"),
    { session: "200", "trade key": "200", "withdraw key": "200" },
  ],
  [
    "buys for more than the policy permits in a day",
    trade(101n),
    {
      session: "409 account_limit",
      "trade key": "409 key_limit",
      "withdraw key": "403 scope_missing",
    },
  ],
  [
    "buys for the most that the key permits in a trade",
    trade(30n),
    { session: "200 settled", "trade key": "200 settled", "withdraw key": "403 scope_missing" },
  ],
  [
    "buys up to the day's limit of the policy, which is above the key's",
    trade(70n),
    { session: "200 settled", "trade key": "409 key_limit", "withdraw key": "403 scope_missing" },
  ],
  [
    "buys for 11 more",
    trade(11n),
    {
      session: "409 account_limit",
      "trade key": "409 key_limit",
      "withdraw key": "403 scope_missing",
    },
  ],
  [
    "withdraws to an address of the thief",
    withdraw(1, "unlisted"),
    {
      session: "403 session_cannot_withdraw",
      "trade key": "403 scope_missing",
      "withdraw key": "409 address_not_listed",
    },
  ],
  [
    "withdraws more than the day's limit to the owner's address",
    withdraw(51, "listed"),
    {
      session: "403 session_cannot_withdraw",
      "trade key": "403 scope_missing",
      "withdraw key": "409 account_limit",
    },
  ],
  [
    "withdraws to the owner's address what needs no approval",
    withdraw(10, "listed"),
    {
      session: "403 session_cannot_withdraw",
      "trade key": "403 scope_missing",
      "withdraw key": "202 queued",
    },
  ],
  [
    "withdraws one more to the owner's address",
    withdraw(1, "listed"),
    {
      session: "403 session_cannot_withdraw",
      "trade key": "403 scope_missing",
      "withdraw key": "202 awaiting_approval",
    },
  ],
  [
    "approves a withdrawal",
    post("/custody/approve-withdrawal", { ...GUESS, withdrawal_id: crypto.randomUUID() }),
    sessionOnly("401 login_failed"),
  ],
  [
    "adds an address",
    (thief) =>
      thief.post("/custody/create-withdrawal-address", {
        ...GUESS,
        address: newAddress(),
        label: "thief",
      }),
    sessionOnly("401 login_failed"),
  ],
  [
    "loosens the policy",
    post("/auth/policy", { ...GUESS, max_trade_usdc_per_day: null }),
    sessionOnly("401 login_failed"),
  ],
  [
    "changes the password",
    post("/auth/change-password", { ...GUESS, new_password: "of the thief!", revoke_keys: true }),
    sessionOnly("401 login_failed"),
  ],
  ["exchanges the authenticator", post("/auth/totp", GUESS), sessionOnly("401 login_failed")],
  [
    "removes TOTP",
    post("/auth/remove-totp", { ...GUESS, totp_code: "000000" }),
    sessionOnly("401 login_failed"),
  ],
  [
    "mints a key that trades",
    post("/auth/api-keys", { ...KEY, scopes: ["trade"] }),
    sessionOnly("401 totp_required"),
  ],
  [
    "asks for a key that withdraws",
    post("/auth/api-keys", {
      ...KEY,
      scopes: ["withdraw"],
      request_approval: true,
      allowed_ips: ["10.0.0.0/8"],
      expires_at: new Date(Date.now() + DAY_MS).toISOString(),
    }),
    sessionOnly("401 totp_required"),
  ],
  [
    "mints a key that reads",
    post("/auth/api-keys", { ...KEY, scopes: ["read"] }),
    sessionOnly("201"),
  ],
  [
    "freezes the account",
    post("/auth/freeze", {}),
    { session: "200", "trade key": "200", "withdraw key": "200" },
  ],
];

describe.each<Thing>(["session", "trade key", "withdraw key"])("a thief with a %s", (thing) => {
  let owner: Owner;
  let thief: Api;
  beforeAll(async () => {
    owner = await newOwner();
    thief = await steal(thing, owner);
  });

  it.each(ACTIONS.map(([name, act, outcomes]) => [name, outcomes[thing], act] as const))(
    "%s: %s",
    async (_, outcome, act) => {
      expect(await outcomeOf(await act(thief, owner))).toBe(outcome);
    },
  );
});

describe("the owner ends", () => {
  it("a stolen session at once, and it ends after its lifetime anyway", async () => {
    const user = await newUser();
    const issuedMs = Date.now() - settings().AUTH_SESSION_TTL_SECS * 1_000;
    const old = await issueSession(settings(), { userId: user.userId, epoch: 0 }, issuedMs);
    const expired = await apiOf({ token: old.accessToken }).get("/auth/whoami");
    expect(await codeOf(expired)).toBe("401 session_expired");
    const thief = apiOf(user);
    expect((await apiOf(user).delete("/auth/sessions", {})).status).toBe(200);
    forgetAllCredentials();
    expect(await codeOf(await thief.get("/auth/whoami"))).toBe("401 session_invalid");
  });

  it.each([["trade"], ["withdraw"]] as const)("a stolen %s key at once", async (scope) => {
    const user = await newUser();
    const key = await newKey(user, ["read", scope]);
    expect((await apiOf(key).get("/auth/whoami")).status).toBe(200);
    await apiOf(user).delete("/auth/api-keys", { api_key_id: key.apiKeyId });
    expect(await codeOf(await apiOf(key).get("/auth/whoami"))).toBe("401 api_key_revoked");
  });
});

describe("a thief with a session, the password and codes", () => {
  it("waits a day for a change that widens a right, and a freeze cancels it", async () => {
    const owner = await newOwner();
    const { user, secret } = owner;
    const thief = apiOf(user, DAY);
    const stepUp = async () => ({ password: PASSWORD, totp_code: await freshCode(user, secret) });
    const began = Date.now();
    const loosened = await thief.post("/auth/policy", {
      ...(await stepUp()),
      withdraw_listed_only: false,
      max_trade_usdc_per_day: null,
    });
    const added = await thief.post("/custody/create-withdrawal-address", {
      ...(await stepUp()),
      address: newAddress(),
      label: "thief",
    });
    const removed = await thief.post("/auth/remove-totp", await stepUp());
    expect(loosened.json["policy"]).toMatchObject({ withdraw_listed_only: true });
    for (const at of [
      loosened.json["active_from"],
      added.json["active_from"],
      removed.json["removal_at"],
    ])
      expect(Math.abs(Date.parse(at) - began - DAY_MS)).toBeLessThan(60_000);

    expect((await apiOf(user).post("/auth/freeze", {})).status).toBe(200);
    const unfrozen = await send("/auth/unfreeze", {
      method: "POST",
      body: JSON.stringify({ email: user.email, ...(await stepUp()), revoke_keys: true }),
    });
    expect(unfrozen.status).toBe(200);
    forgetAllCredentials();
    const login = await send("/auth/login", {
      method: "POST",
      body: JSON.stringify({ email: user.email, ...(await stepUp()) }),
    });
    const { access_token: token } = await login.json<{ access_token: string }>();
    const mine = apiOf({ token });
    expect((await mine.get("/auth/policy")).json).toMatchObject({ pending: null });
    const { json } = await mine.get("/custody/get-withdrawal-addresses");
    const items = json["items"] as readonly { address: string }[];
    expect(items.map(({ address }) => address.toLowerCase())).toEqual([owner.listed]);
  });
});

describe("a thief with a session, the password and two codes", () => {
  it("has no account a day later, if its owner freezes or cancels", async () => {
    const owner = await newOwner();
    const { user, secret } = owner;
    const key = await newKey(user, ["read", "trade"]);
    const thief = apiOf(user, DAY);
    const stepUp = async () => ({ password: PASSWORD, totp_code: await freshCode(user, secret) });
    const { json } = await thief.post("/auth/totp", await stepUp());
    const totp_code = codeOfStep(json["secret"], presentStep());
    const confirmed = await thief.post("/auth/confirm-totp", { totp_code });
    expect(Date.parse(confirmed.json["active_from"])).toBeGreaterThan(Date.now() + DAY_MS - 60_000);
    const changed = await thief.post("/auth/change-password", {
      ...(await stepUp()),
      new_password: "of the thief!",
      revoke_keys: true,
    });
    expect(changed.json["scopes"]).toEqual(["read"]);
    const stolen = apiOf({ token: changed.json["access_token"] }, DAY);
    const mint = await stolen.post("/auth/api-keys", { ...KEY, scopes: ["read"] });
    expect(await codeOf(mint)).toBe("403 security_hold");
    // The password cancelled the device, and the owner's key still freezes.
    const asks = (path: string, body: object) =>
      send(path, {
        method: "POST",
        env: DAY,
        body: JSON.stringify({ email: user.email, ...body }),
      });
    const password = "of the thief!";
    const code = await freshCode(user, String(json["secret"]));
    expect(await codeOf(await asks("/auth/login", { password, totp_code: code }))).toBe(
      "401 totp_invalid",
    );
    expect((await apiOf(key).post("/auth/freeze", {})).status).toBe(200);
    const own = { password, totp_code: await freshCode(user, secret), revoke_keys: true };
    expect(await codeOf(await asks("/auth/unfreeze", own))).toBe("403 account_frozen");
  });
});

describe("a thief with one operator's key, of two who must agree", () => {
  let owner: Owner;
  let waiting: string;
  beforeAll(async () => {
    owner = await newOwner();
    waiting = (await insertWithdrawal(owner.user.userId)).withdrawalId;
  });
  const execute = async (line: string, options: Record<string, string> = {}) => {
    const answer = await sendOrder(orderOf(line.split(" "), options), TWO);
    forgetAllCredentials();
    return answer;
  };

  it.each<[string, () => Record<string, string>]>([
    ["user set-password", () => ({ email: owner.user.email })],
    ["user reset-totp", () => ({ email: owner.user.email })],
    ["user unfreeze", () => ({ email: owner.user.email })],
    ["api-key approve", () => ({ id: crypto.randomUUID() })],
    ["withdrawals fail", () => ({ id: waiting })],
    ["withdrawals rescue", () => ({ token: "native", to: "0x1", amount: "1" })],
    ["withdrawals resume", () => ({})],
    ["chain resume local", () => ({})],
    ["venue resume venue_one", () => ({})],
    ["restore", () => ({})],
  ])("only proposes `%s`, and cannot approve it", async (line, options) => {
    const { result } = await execute(line, options());
    expect(result).toMatchObject({ status: "open" });
    const id = String(result["proposal_id"]);
    const [listed] = (await execute("approvals list")).result.filter(
      ({ proposal_id }) => proposal_id === id,
    );
    const left = Date.parse(String(listed?.["expires_at"])) - Date.now();
    expect(left).toBeLessThanOrEqual(DAY_MS);
    const sha256 = createHash("sha256").update(String(listed?.["content"])).digest("hex");
    expect(await execute("approve", { id, sha256 })).toMatchObject({
      ok: false,
      problem: { code: "approver_is_proposer" },
    });
    expect((await apiOf(owner.user).get("/auth/whoami")).status).toBe(200);
    const row = await first<{ status: string }>(
      env.DB,
      sql`SELECT status FROM withdrawals WHERE withdrawal_id = ${uuid(waiting)}`,
    );
    expect(row).toEqual({ status: "queued" });
  });

  it("makes no key that withdraws", async () => {
    for (const scopes of ["withdraw", "read,trade,withdraw"])
      expect(await execute("api-key create", { email: owner.user.email, scopes })).toMatchObject({
        ok: false,
        problem: { code: "invalid_request", errors: [{ path: "--scopes" }] },
      });
  });

  it("makes a key that trades, without scopes for a day, and the owner is notified", async () => {
    const { user } = owner;
    const options = { email: user.email, scopes: "trade" };
    const { result } = await execute("api-key create", options);
    const key = { apiKeyId: String(result["api_key_id"]), secret: String(result["secret"]) };
    const thief = apiOf(key);
    expect((await thief.get("/auth/whoami")).json["scopes"]).toEqual([]);
    expect(await codeOf(await trade(1n)(thief, owner))).toBe("403 scope_missing");
    const active = Date.parse(String(result["active_from"]));
    expect(Math.abs(active - Date.now() - DAY_MS)).toBeLessThan(60_000);
    const { json } = await apiOf(user).get("/auth/get-audit-events");
    const items = json["items"] as readonly { kind: string }[];
    const created = items.find(({ kind }) => kind === "api_key_created");
    expect(created).toMatchObject({ actor: "operator:test", subject_id: key.apiKeyId });
    await apiOf(user).delete("/auth/api-keys", { api_key_id: key.apiKeyId });
    expect(await codeOf(await thief.get("/auth/whoami"))).toBe("401 api_key_revoked");
  });

  it("freezes an account, which ends nothing but its use", async () => {
    const { user } = owner;
    expect((await execute("user freeze", { email: user.email })).ok).toBe(true);
    expect(await codeOf(await apiOf(user).get("/auth/whoami"))).toBe("403 account_frozen");
  });
});

describe("a thief with write access by SQL", () => {
  it.each([
    ["widens a key", "scopes = 'read,trade,withdraw'"],
    ["removes its limits", "limits = NULL"],
    ["activates it early", "active_from = 1"],
  ])("%s, and it no longer opens", async (_, change) => {
    const key = await newKey(await newUser(), ["read"], { limits: LIMITS, delaySecs: 60 });
    expect((await apiOf(key).get("/auth/whoami")).status).toBe(200);
    await all(
      env.DB,
      sql`UPDATE api_keys SET ${raw(change)} WHERE api_key_id = ${uuid(key.apiKeyId)}`,
    );
    forgetAllCredentials();
    expect(await codeOf(await apiOf(key).get("/auth/whoami"))).toBe("401 api_key_unknown");
  });

  it("copies a secret of TOTP, and none of its codes is valid", async () => {
    const { user } = await newOwner();
    const thief = await newUserWithPassword();
    const { secret } = await enrol(thief);
    await all(
      env.DB,
      sql`UPDATE totp_secrets SET secret_sealed = (SELECT secret_sealed FROM totp_secrets
          WHERE user_id = ${uuid(thief.userId)})
        WHERE user_id = ${uuid(user.userId)}`,
    );
    const totp_code = await freshCode(user, secret);
    const login = { email: user.email, password: PASSWORD, totp_code };
    const response = await send("/auth/login", { method: "POST", body: JSON.stringify(login) });
    expect(await codeOf(response)).toBe("401 totp_invalid");
  });

  it("edits the audit log, and `audit verify` names the row", async () => {
    await newKey(await newUser(), ["read"]);
    await anchorAudit(env.DB, env.AUDIT, settings());
    const verify = async () => (await sendOrder(orderOf(["audit", "verify"]))).result;
    expect(await verify()).toMatchObject({ verdict: "ok" });
    const row = await first<{ seq: number; actor: string }>(
      env.DB,
      sql`SELECT audit_seq AS seq, actor FROM audit_events ORDER BY audit_seq LIMIT 1`,
    );
    const seq = row?.seq ?? 0;
    const set = (actor: string) =>
      edit(env.DB, "audit_events", [
        sql`UPDATE audit_events SET actor = ${actor} WHERE audit_seq = ${seq}`,
      ]);
    await set("operator:mallory");
    expect(await verify()).toMatchObject({
      verdict: "forged",
      discrepancies: [{ auditSeq: seq, kind: "changed" }],
    });
    await set(row?.actor ?? "");
    expect(await verify()).toMatchObject({ verdict: "ok" });
  });
});
