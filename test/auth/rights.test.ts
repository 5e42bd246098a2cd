/** Rows that say who may act, edited by SQL: the reconciliation compares them with audit events. */
import { env } from "cloudflare:workers";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { sealAudit } from "../../src/audit/seal.ts";
import { verifyAudit } from "../../src/audit/verify.ts";
import { passwordSha256 } from "../../src/audit/event-details.ts";
import { issueSession } from "../../src/auth/session.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { checkRights } from "../../src/reconcile/check-rights.ts";
import { all, first, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, send, settings } from "../support/http.ts";
import { edit as withoutTriggers, newAddress } from "../support/ledger.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { codeOfStep, enrol, freshCode, presentStep } from "../support/totp.ts";
import { newKey, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const db = env.DB;
const EVERYBODY = { after: 0, upTo: 1_000_000 };
const DELAY = { AUTH_SECURITY_DELAY_SECS: "86400" };
const TABLES = [
  "users",
  "api_keys",
  "account_policies",
  "totp_secrets",
  "recovery_codes",
  "withdrawal_addresses",
];

const execute = (line: string, options: Record<string, string>, changes: Partial<Env> = {}) =>
  sendOrder(orderOf(line.split(" "), options), changes);

/** A user with a policy, a looser one that waits, TOTP, keys and addresses. */
async function newOwner() {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  const stepUp = async () => ({ password: PASSWORD, totp_code: await freshCode(user, secret) });
  const now = apiOf(user);
  const later = apiOf(user, DELAY);
  await now.post("/auth/policy", { ...(await stepUp()), withdraw_listed_only: true });
  await later.post("/auth/policy", { ...(await stepUp()), withdraw_listed_only: false });
  const add = async (api: typeof now) => {
    const fields = { ...(await stepUp()), address: newAddress(), label: "cold" };
    return String(
      (await api.post("/custody/create-withdrawal-address", fields)).json["address_id"],
    );
  };
  const limits = { venues: null, maxUsdcPerTrade: 1n, maxUsdcPerDay: null };
  const key = await newKey(user, ["read"], { limits, allowedIps: ["10.0.0.0/8"], delaySecs: 60 });
  const revoked = await newKey(user, ["read"]);
  await now.delete("/auth/api-keys", { api_key_id: revoked.apiKeyId });
  return {
    user,
    secret,
    key: key.apiKeyId,
    revoked: revoked.apiKeyId,
    active: await add(now),
    waiting: await add(later),
  };
}
type Owner = Awaited<ReturnType<typeof newOwner>>;

const set = (table: string, change: string, where: Sql) =>
  sql`UPDATE ${raw(table)} SET ${raw(change)} WHERE ${where}`;
const mine = ({ user }: { user: TestUser }) => sql`user_id = ${uuid(user.userId)}`;
const keyOf = (id: string) => sql`api_key_id = ${uuid(id)}`;
const addressOf = (id: string) => sql`address_id = ${uuid(id)}`;
/** The row of before the freeze, put back. */
const putBack = (table: string, of: Sql) =>
  sql`INSERT OR REPLACE INTO ${raw(table)} SELECT * FROM ${raw(`unfrozen_${table}`)} WHERE ${of}`;

/** Of an account that is in use. */
const EDITS: readonly [title: string, edit: (owner: Owner) => Sql, what: (o: Owner) => string][] = [
  [
    "a key's scopes widened",
    ({ key }) => set("api_keys", "scopes = 'read,trade,withdraw'", keyOf(key)),
    ({ key }) => `key/${key}`,
  ],
  [
    "a key's limits removed",
    ({ key }) => set("api_keys", "limits = NULL", keyOf(key)),
    ({ key }) => `key/${key}`,
  ],
  [
    "a key's addresses removed",
    ({ key }) => set("api_keys", "allowed_ips = NULL", keyOf(key)),
    ({ key }) => `key/${key}`,
  ],
  [
    "a key activated early",
    ({ key }) => set("api_keys", "active_from = 1", keyOf(key)),
    ({ key }) => `key/${key}`,
  ],
  [
    "a key's revocation undone",
    ({ revoked }) => set("api_keys", "revoked_at = NULL", keyOf(revoked)),
    ({ revoked }) => `key/${revoked}`,
  ],
  [
    "a key copied",
    ({ key }) => sql`INSERT INTO api_keys SELECT randomblob(16), user_id, label, scopes,
        secret_sealed, master_key_id, allowed_ips, limits, require_idempotency, minted_by,
        active_from, approved_at, created_at, expires_at, last_used_at, revoked_at,
        networks
      FROM api_keys WHERE ${keyOf(key)}`,
    () => "key/",
  ],
  [
    "a policy loosened",
    (owner) => set("account_policies", "withdraw_listed_only = 0", mine(owner)),
    () => "policy",
  ],
  [
    "a looser policy applied early",
    (owner) => set("account_policies", "active_from = active_from - 86400000", mine(owner)),
    () => "policy",
  ],
  ["a policy deleted", (o) => sql`DELETE FROM account_policies WHERE ${mine(o)}`, () => "policy"],
  ["TOTP deleted", (o) => sql`DELETE FROM totp_secrets WHERE ${mine(o)}`, () => "TOTP"],
  ["the end of TOTP set", (o) => set("totp_secrets", "ends_at = 1", mine(o)), () => "TOTP"],
  [
    "a recovery code added",
    ({ user }) => sql`INSERT INTO recovery_codes (user_id, code_hash)
      VALUES (${uuid(user.userId)}, randomblob(32))`,
    () => "recovery codes",
  ],
  [
    "a replacement of the authenticator added",
    (o) => set("totp_secrets", "next_sealed = secret_sealed, next_from = 1", mine(o)),
    () => "TOTP",
  ],
  [
    "an address replaced",
    ({ active }) => set("withdrawal_addresses", "address = randomblob(20)", addressOf(active)),
    ({ active }) => `address/${active}`,
  ],
  [
    "an address activated early",
    ({ waiting }) => set("withdrawal_addresses", "active_from = 1", addressOf(waiting)),
    ({ waiting }) => `address/${waiting}`,
  ],
  [
    "an address added",
    ({ active }) => sql`INSERT INTO withdrawal_addresses SELECT randomblob(16), user_id, chain,
        randomblob(20), label, created_at, active_from
      FROM withdrawal_addresses WHERE ${addressOf(active)}`,
    () => "address/",
  ],
];

/** Of the same account after an operator has set its password and frozen it. */
const EDITS_OF_FROZEN: typeof EDITS = [
  [
    "a password hash replaced",
    (owner) => set("users", "password_hash = 'scrypt$of$the$thief'", mine(owner)),
    () => "password",
  ],
  [
    "ended sessions revived",
    (owner) => set("users", "session_epoch = session_epoch - 1", mine(owner)),
    () => "sessions",
  ],
  [
    "a freeze deleted",
    (owner) => set("users", "frozen_at = NULL, frozen_by = NULL", mine(owner)),
    () => "freeze",
  ],
  [
    "an operator's freeze made one that its owner can end",
    (owner) => set("users", "frozen_by = 'self'", mine(owner)),
    () => "freeze",
  ],
  [
    "a security hold ended",
    (o) => set("users", "hold_until = NULL", mine(o)),
    () => "security hold",
  ],
  ["a cancelled policy put back", (o) => putBack("account_policies", mine(o)), () => "policy"],
  [
    "a cancelled address put back",
    ({ waiting }) => putBack("withdrawal_addresses", addressOf(waiting)),
    ({ waiting }) => `address/${waiting}`,
  ],
];

let owner: Owner;
/** Of these tests. Other files edit rows of their own users. */
const users = new Set<string>();
const wrong = async () => {
  const found = await checkRights(db, settings(), EVERYBODY);
  return found
    .map(({ account, detail }) => ({
      userId: account.slice(0, 36),
      what: account.slice(37),
      detail,
    }))
    .filter(({ userId }) => users.has(userId));
};

const copyTo = async (prefix: string) => {
  for (const table of TABLES)
    await all(
      db,
      sql`CREATE TABLE ${raw(`${prefix}_${table}`)} AS
        SELECT * FROM ${raw(table)} WHERE ${mine(owner)}`,
    );
};
const copyFrom = async (prefix: string) => {
  for (const table of TABLES) {
    await all(db, sql`DELETE FROM ${raw(table)} WHERE ${mine(owner)}`);
    await all(db, sql`INSERT INTO ${raw(table)} SELECT * FROM ${raw(`${prefix}_${table}`)}`);
  }
};
const dropCopies = async (prefix: string) => {
  for (const table of TABLES) await all(db, sql`DROP TABLE ${raw(`${prefix}_${table}`)}`);
};

beforeAll(async () => {
  owner = await newOwner();
  users.add(owner.user.userId).add((await newOwner()).user.userId);
  await copyTo("unfrozen");
});
afterAll(() => dropCopies("unfrozen"));

const cases = (edits: typeof EDITS) => edits.map(([title, edit, what]) => ({ title, edit, what }));

describe("of an account in use", () => {
  afterEach(() => copyFrom("unfrozen"));

  it("nothing differs before an edit", async () => {
    expect(await wrong()).toEqual([]);
  });

  it.each(cases(EDITS))("finds $title", async ({ edit, what }) => {
    await all(db, edit(owner));
    expect(await wrong()).toMatchObject([
      { userId: owner.user.userId, what: expect.stringContaining(what(owner)) },
    ]);
  });
});

describe("of an account that was reset and frozen", () => {
  beforeAll(async () => {
    const { email } = owner.user;
    await execute("user set-password", { email, password: PASSWORD }, DELAY);
    await execute("user freeze", { email });
    await copyTo("frozen");
  });
  afterEach(() => copyFrom("frozen"));
  afterAll(() => dropCopies("frozen"));

  it("nothing differs before an edit", async () => {
    expect(await wrong()).toEqual([]);
  });

  it.each(cases(EDITS_OF_FROZEN))("finds $title", async ({ edit, what }) => {
    await all(db, edit(owner));
    expect((await wrong()).map((one) => one.what)).toEqual([what(owner)]);
  });
});

it("finds no difference after every way to change a right", async () => {
  const user = await newUserWithPassword();
  users.add(user.userId);
  const { codes, ...enrolled } = await enrol(user);
  let { secret } = enrolled;
  const stepUp = async () => ({ password: PASSWORD, totp_code: await freshCode(user, secret) });
  const [now, later] = [apiOf(user), apiOf(user, DELAY)];
  // A call that was rejected would change nothing, and nothing would differ.
  const done = async (call: Promise<{ status: number; json: unknown }>) =>
    expect(await call).toMatchObject({ status: expect.toSatisfy((status) => status < 300) });
  const ordered = async (order: ReturnType<typeof execute>) =>
    expect(await order).toMatchObject({ ok: true });
  await done(later.post("/auth/policy", { ...(await stepUp()), max_trade_usdc_per_day: 5 }));
  await done(later.post("/auth/policy", { ...(await stepUp()), max_trade_usdc_per_day: null }));
  await done(later.post("/auth/remove-totp", { password: PASSWORD, recovery_code: codes[0] }));
  await done(
    now.post("/custody/create-withdrawal-address", {
      ...(await stepUp()),
      address: newAddress(),
      label: "cold",
    }),
  );
  expect(await wrong()).toEqual([]);
  await done(now.post("/auth/cancel-totp-removal", {}));
  await newKey(user, ["read", "withdraw"], { totpCode: await freshCode(user, secret) });
  const replace = async (api: typeof now, given: object) => {
    const { json } = await api.post("/auth/totp", { password: PASSWORD, ...given });
    const totp_code = codeOfStep(json["secret"], presentStep());
    await done(api.post("/auth/confirm-totp", { totp_code }));
    expect(await wrong()).toEqual([]);
    return String(json["secret"]);
  };
  await replace(later, await stepUp());
  await done(now.post("/auth/cancel-totp-removal", {}));
  const soon = apiOf(user, { AUTH_SECURITY_DELAY_SECS: "1" });
  secret = await replace(soon, await stepUp());
  await new Promise((resolve) => setTimeout(resolve, 1_100));
  // The second replacement begins where the first one ended.
  await replace(later, await stepUp());
  await done(now.post("/auth/cancel-totp-removal", {}));
  expect(await wrong()).toEqual([]);
  await done(later.post("/auth/remove-totp", await stepUp()));
  await done(now.post("/auth/freeze", {}));
  expect(await wrong()).toEqual([]);
  const unfreeze = { email: user.email, ...(await stepUp()), revoke_keys: true };
  await done(send("/auth/unfreeze", { method: "POST", body: JSON.stringify(unfreeze) }));
  await ordered(execute("user reset-totp", { email: user.email }, DELAY));
  await ordered(execute("user freeze", { email: user.email }));
  await ordered(execute("user unfreeze", { email: user.email }));
  expect(await wrong()).toEqual([]);
});

it("compares a request with the first freeze after it, not with the last", async () => {
  const user = await newUserWithPassword();
  users.add(user.userId);
  const { email } = user;
  const { secret, codes } = await enrol(user);
  const soon = apiOf(user, { AUTH_SECURITY_DELAY_SECS: "4" });
  for (const withdraw_listed_only of [true, false]) {
    const stepUp = { password: PASSWORD, totp_code: await freshCode(user, secret) };
    const changed = await soon.post("/auth/policy", { ...stepUp, withdraw_listed_only });
    expect(changed.json).toHaveProperty("policy.withdraw_listed_only", true);
  }
  await soon.post("/auth/remove-totp", { password: PASSWORD, recovery_code: codes[0] });
  await execute("user freeze", { email });
  // Both would have taken effect by now.
  await new Promise((resolve) => setTimeout(resolve, 4_100));
  await execute("user unfreeze", { email });
  await execute("user set-password", { email, password: PASSWORD });
  expect(await wrong()).toEqual([]);
  await all(db, sql`DELETE FROM totp_secrets WHERE ${mine({ user })}`);
  expect(await wrong()).toMatchObject([{ userId: user.userId, what: "TOTP" }]);
  users.delete(user.userId);
});

it("a freeze ends sessions that SQL has revived", async () => {
  const user = await newUserWithPassword();
  users.add(user.userId);
  for (const command of ["user freeze", "user unfreeze", "user freeze", "user unfreeze"])
    await execute(command, { email: user.email });
  const epoch = async () =>
    (await first<{ epoch: number }>(
      db,
      sql`SELECT session_epoch AS epoch FROM users WHERE ${mine({ user })}`,
    ))!.epoch;
  const before = await epoch();
  await all(db, set("users", "session_epoch = 0", mine({ user })));
  await execute("user freeze", { email: user.email });
  expect(await epoch()).toBe(before + 1);
  expect(await wrong()).toEqual([]);
});

it("a change of the password ends sessions that SQL has revived", async () => {
  const user = await newUserWithPassword();
  users.add(user.userId);
  for (const command of ["user freeze", "user unfreeze", "user freeze", "user unfreeze"])
    await execute(command, { email: user.email });
  const ended = await issueSession(settings(), { userId: user.userId, epoch: 1 });
  await all(db, set("users", "session_epoch = 0", mine({ user })));
  forgetAllCredentials();
  const fields = { password: PASSWORD, new_password: `new ${PASSWORD}`, revoke_keys: false };
  const { status, json } = await apiOf(user).post("/auth/change-password", fields);
  expect(status).toBe(200);
  forgetAllCredentials();
  const whoami = (token: string) => apiOf({ token }).get("/auth/whoami");
  expect((await whoami(ended.accessToken)).status).toBe(401);
  expect((await whoami(json["access_token"])).status).toBe(200);
  expect(await wrong()).toEqual([]);
});

describe("an event that SQL inserts to explain an edit", () => {
  let user: TestUser;
  /** Columns of an event that this service wrote about the user. */
  const copyOf = (kind: string) =>
    sql`SELECT actor, user_id, ip, details, mac, at FROM audit_events
      WHERE subject_id = ${user.userId} AND kind = ${kind} ORDER BY audit_seq LIMIT 1`;
  const lastSeq = async () =>
    (await first<{ seq: number }>(db, sql`SELECT max(audit_seq) AS seq FROM audit_events`))?.seq;

  beforeAll(async () => {
    user = await newUserWithPassword();
    users.add(user.userId);
    for (const withdraw_listed_only of [false, true])
      await apiOf(user).post("/auth/policy", { password: PASSWORD, withdraw_listed_only });
    await execute("user set-password", { email: user.email, password: PASSWORD });
    await execute("user freeze", { email: user.email });
    await sealAudit(db, settings());
  });

  it.each(["operator_order", "proposal_decided", "user_created"])(
    "without the details of a %s is forged",
    async (kind) => {
      await all(
        db,
        sql`INSERT INTO audit_events (audit_event_id, kind, actor, user_id, subject_id, at)
          VALUES (randomblob(16), ${kind}, 'operator:ann', NULL, 'user freeze', ${Date.now()})`,
      );
      const seq = (await lastSeq()) ?? 0;
      const { discrepancies } = await verifyAudit(db, settings());
      await withoutTriggers(db, "audit_events", [
        sql`DELETE FROM audit_events WHERE audit_seq = ${seq}`,
      ]);
      expect(discrepancies).toEqual([{ auditSeq: seq, kind: "forged" }]);
    },
  );

  it.each(["x", "5"])("with the details %j is forged", async (details) => {
    await all(
      db,
      sql`INSERT INTO audit_events (audit_event_id, kind, actor, user_id, subject_id, details, at)
        VALUES (randomblob(16), 'policy_changed', 'session', ${uuid(user.userId)}, ${user.userId},
          ${details}, ${Date.now()})`,
    );
    const seq = (await lastSeq()) ?? 0;
    const found = await wrong().catch(() => "it failed");
    await withoutTriggers(db, "audit_events", [
      sql`DELETE FROM audit_events WHERE audit_seq = ${seq}`,
    ]);
    expect(found).toMatchObject([{ userId: user.userId, what: `event/${seq}` }]);
  });

  it.each<[string, table: string, change: string, kind: string, columns: () => Sql]>([
    [
      "as a copy of an earlier event",
      "account_policies",
      `withdraw_listed_only = 0, active_from = (SELECT min(at) FROM audit_events e
        WHERE e.user_id = account_policies.user_id AND e.kind = 'policy_changed')`,
      "policy_changed",
      () => copyOf("policy_changed"),
    ],
    [
      "with another event's MAC",
      "users",
      "frozen_at = NULL, frozen_by = NULL",
      "account_unfrozen",
      () => copyOf("account_frozen"),
    ],
    [
      "without a MAC",
      "users",
      "password_hash = 'of the thief'",
      "password_changed",
      () => sql`SELECT 'session', ${uuid(user.userId)}, NULL,
        ${JSON.stringify({ passwordSha256: passwordSha256("of the thief") })}, NULL, ${Date.now()}`,
    ],
  ])("%s is forged", async (_, table, change, kind, columns) => {
    await all(db, sql`CREATE TABLE before AS SELECT * FROM ${raw(table)} WHERE ${mine({ user })}`);
    await all(db, set(table, change, mine({ user })));
    expect(await wrong()).toHaveLength(1);
    const sealed = await lastSeq();
    await all(
      db,
      sql`INSERT INTO audit_events (audit_event_id, kind, subject_id, actor, user_id, ip, details,
          mac, at)
        SELECT randomblob(16), ${kind}, ${user.userId}, * FROM (${columns()})`,
    );
    const seq = await lastSeq();
    expect(seq).toBe((sealed ?? 0) + 1);
    expect(await wrong()).toEqual([
      {
        userId: user.userId,
        what: `event/${seq}`,
        detail: expect.stringContaining("no valid MAC"),
      },
    ]);
    const verified = async () => (await verifyAudit(db, settings())).discrepancies;
    expect(await verified()).toEqual([{ auditSeq: seq, kind: "forged" }]);
    await sealAudit(db, settings());
    expect(await verified()).toEqual([{ auditSeq: seq, kind: "forged" }]);

    for (const log of ["audit_seals", "audit_events"])
      await withoutTriggers(db, log, [sql`DELETE FROM ${raw(log)} WHERE audit_seq = ${seq ?? 0}`]);
    await all(db, sql`DELETE FROM ${raw(table)} WHERE ${mine({ user })}`);
    await all(db, sql`INSERT INTO ${raw(table)} SELECT * FROM before`);
    await all(db, sql`DROP TABLE before`);
    expect(await wrong()).toEqual([]);
  });
});

it("`reconcile` names the row and the next command", async () => {
  const user = await newUserWithPassword();
  const { apiKeyId } = await newKey(user, ["read"]);
  await all(db, set("api_keys", "scopes = 'read,trade'", keyOf(apiKeyId)));
  const { ok, differences } = await reconcile(db, { macKeys: settings(), chains: [], full: true });
  expect(ok).toBe(false);
  expect(differences).toContainEqual({
    check: "rights_mismatch",
    account: `${user.userId}/key/${apiKeyId}`,
    amount: "0",
    detail: expect.stringMatching(
      new RegExp(
        `"read,trade".*"read".*npm run operator -- api-key revoke --id ${apiKeyId} --env test$`,
      ),
    ),
  });
  await all(db, set("api_keys", "scopes = 'read'", keyOf(apiKeyId)));
  await all(
    db,
    sql`UPDATE alerts SET resolved_at = 1 WHERE kind = 'reconciliation'
      AND subject = ${`rights_mismatch ${user.userId}/key/${apiKeyId}`}`,
  );
});
