import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { trimApiKeys } from "../../src/auth/api-key.ts";
import { approveApiKey, KEY_APPROVAL_MS } from "../../src/auth/approve-key.ts";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { mintApiKey } from "../../src/auth/mint-key.ts";
import { all, first, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, codeOf, settings } from "../support/http.ts";
import { withBatch } from "../support/slow-database.ts";
import { newUser, type TestUser } from "../support/users.ts";

const db = env.DB;
const WHOAMI = "/auth/whoami";
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
const ASKED = {
  label: "treasury",
  scopes: ["read", "withdraw"],
  request_approval: true,
  allowed_ips: ["10.0.0.0/8"],
};

const ask = (user: TestUser, fields: object = {}) =>
  apiOf(user).post("/auth/api-keys", { ...ASKED, expires_at: inDays(300), ...fields });

async function asked(user: TestUser) {
  const { status, json } = await ask(user);
  expect(status).toBe(201);
  return { apiKeyId: json["api_key_id"] as string, secret: json["secret"] as string, json };
}

const approve = (apiKeyId: string, delaySecs = 0, on: D1Database = db) => {
  forgetAllCredentials();
  const changed = settings({ AUTH_OPERATOR_KEY_DELAY_SECS: delaySecs });
  return approveApiKey(on, changed, { apiKeyId, operator: "alice" });
};

const change = (apiKeyId: string, columns: Sql) =>
  all(db, sql`UPDATE api_keys SET ${columns} WHERE api_key_id = ${uuid(apiKeyId)}`);
const rowOf = (apiKeyId: string) =>
  first<{ sealed: string }>(
    db,
    sql`SELECT secret_sealed AS sealed, active_from, approved_at FROM api_keys
      WHERE api_key_id = ${uuid(apiKeyId)}`,
  );

it("a withdraw key has its scopes only once the operator has approved it", async () => {
  const user = await newUser();
  const key = await asked(user);
  expect(key.json).toMatchObject({
    scopes: ["read", "withdraw"],
    minted_by: "session",
    active_from: null,
    approved_at: null,
  });
  const api = apiOf(key);
  expect((await api.get(WHOAMI)).json["scopes"]).toEqual([]);
  expect(await codeOf(await api.get("/custody/get-usdc-balance"))).toBe("403 scope_missing");
  expect(await approve(key.apiKeyId)).toBeTypeOf("number");
  expect((await api.get(WHOAMI)).json["scopes"]).toEqual(["read", "withdraw"]);
  const { items } = (await apiOf(user).get("/auth/get-audit-events")).json as any;
  const approvals = items.filter(({ kind }: { kind: string }) => kind === "api_key_approved");
  expect(approvals[0]).toMatchObject({
    actor: "operator:alice",
    subject_id: key.apiKeyId,
  });
  const [listed] = (await apiOf(user).get("/auth/api-keys")).json["items"];
  expect(listed.approved_at).toBeTypeOf("string");
  expect(listed.active_from).toBeTypeOf("string");
  // Once is enough.
  expect(await approve(key.apiKeyId)).toBeUndefined();
});

it("an approved key waits for the delay, and can be revoked before", async () => {
  const user = await newUser();
  const key = await asked(user);
  await approve(key.apiKeyId, 86_400);
  expect((await apiOf(key).get(WHOAMI)).json["scopes"]).toEqual([]);
  await apiOf(user).delete("/auth/api-keys", { api_key_id: key.apiKeyId });
  expect(await codeOf(await apiOf(key).get(WHOAMI))).toBe("401 api_key_revoked");
});

it.each([
  ["no allow list", { allowed_ips: null }, "body.allowed_ips"],
  ["every address", { allowed_ips: ["198.51.100.7", "0.0.0.0/0"] }, "body.allowed_ips"],
  ["half of them", { allowed_ips: ["128.0.0.0/1"] }, "body.allowed_ips"],
  ["every IPv6 address", { allowed_ips: ["::/0"] }, "body.allowed_ips"],
  ["every mapped address", { allowed_ips: ["::ffff:0:0/96"] }, "body.allowed_ips"],
  ["the block of every mapped address", { allowed_ips: ["::/16"] }, "body.allowed_ips"],
  ["no end", { expires_at: null }, "body.expires_at"],
  ["an end after 366 days", { expires_at: inDays(367) }, "body.expires_at"],
  ["no withdraw", { scopes: ["read"] }, "body.scopes"],
])("rejects a withdraw key with %s", async (_, fields, path) => {
  const { status, json } = await ask(await newUser(), fields);
  expect(status).toBe(400);
  expect(json["errors"]).toMatchObject([{ path }]);
});

it("lets five keys wait, for seven days, after which cron deletes them", async () => {
  const user = await newUser();
  // Neither another user's key that waits counts nor an own one that does not.
  await asked(await newUser());
  await apiOf(user).post("/auth/api-keys", { label: "k", scopes: ["read"] });
  const keys = [];
  for (let count = 0; count < 5; count++) keys.push(await asked(user));
  expect(await codeOf(await ask(user))).toBe("409 api_key_limit");
  await change(keys[0]?.apiKeyId ?? "", sql`created_at = created_at - ${KEY_APPROVAL_MS}`);
  expect(await approve(keys[0]?.apiKeyId ?? "")).toBeUndefined();
  expect((await ask(user)).status).toBe(201);
  await trimApiKeys(db);
  expect((await apiOf(user).get("/auth/api-keys")).json["items"]).toHaveLength(6);
});

it("approves neither a revoked or expired key nor one that did not ask", async () => {
  const user = await newUser();
  const revoked = await asked(user);
  await apiOf(user).delete("/auth/api-keys", { api_key_id: revoked.apiKeyId });
  expect(await approve(revoked.apiKeyId)).toBeUndefined();
  const plain = await apiOf(user).post("/auth/api-keys", { label: "k", scopes: ["read"] });
  expect(await approve(plain.json["api_key_id"])).toBeUndefined();
  const expired = await mintApiKey(db, settings(), {
    actor: user.actor,
    ip: undefined,
    key: {
      label: "k",
      scopes: ["withdraw"],
      expiresAt: Date.now() - 1,
      allowedIps: ["::/0"],
      limits: null,
      requireIdempotency: false,
    },
    requestApproval: true,
  });
  expect(await approve(expired.api_key_id)).toBeUndefined();
});

it("approves and seals no key but the one that is named", async () => {
  const user = await newUser();
  const [key, own, foreign] = [await asked(user), await asked(user), await asked(await newUser())];
  // Even with a copy of the seal.
  await change(own.apiKeyId, sql`secret_sealed = ${(await rowOf(key.apiKeyId))?.sealed ?? ""}`);
  const others = () => Promise.all([own, foreign].map(({ apiKeyId }) => rowOf(apiKeyId)));
  const before = await others();
  expect(await approve(key.apiKeyId)).toBeTypeOf("number");
  expect(await others()).toEqual(before);
});

it.each([
  ["revoked", sql`revoked_at = 1`],
  ["expired", sql`expires_at = 1`],
  ["sealed again", sql`secret_sealed = 'another'`],
])("does not approve a key that is %s before the guard", async (_, columns) => {
  const user = await newUser();
  // Another key that waits does not let the guard apply.
  const [{ apiKeyId }] = [await asked(user), await asked(user)];
  const changed: { row?: object | undefined } = {};
  const slow = withBatch(db, async (statements) => {
    await change(apiKeyId, columns);
    changed.row = await rowOf(apiKeyId);
    return db.batch(statements);
  });
  expect(await approve(apiKeyId, 0, slow)).toBeUndefined();
  expect(changed.row).toMatchObject({ active_from: null, approved_at: null });
  expect(await rowOf(apiKeyId)).toEqual(changed.row);
  const { json } = await apiOf(user).get("/auth/get-audit-events");
  expect(json["items"]).not.toContainEqual(expect.objectContaining({ kind: "api_key_approved" }));
});
