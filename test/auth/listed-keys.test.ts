/** Withdraw keys that need no operator: they wait for the delay and pay only the address book. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { noticeKeys } from "../../src/auth/notice-keys.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, codeOf, settings } from "../support/http.ts";
import { newAddress, newAsset } from "../support/ledger.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { enrol, freshCode } from "../support/totp.ts";
import { newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";

const DAY = { AUTH_SECURITY_DELAY_SECS: "86400" };
const KEYS = "/auth/api-keys";

async function newOwner() {
  const { key, ...asset } = newAsset();
  const user = await newUserWithPassword({ [key]: 1_000n });
  const { secret } = await enrol(user);
  const stepUp = async () => ({ password: PASSWORD, totp_code: await freshCode(user, secret) });
  const ask = async (fields: object = {}, changes: Record<string, string> = {}) =>
    apiOf(user, changes).post(KEYS, {
      label: "treasury",
      scopes: ["read", "withdraw"],
      request_approval: true,
      only_listed: true,
      allowed_ips: ["10.0.0.0/8"],
      expires_at: new Date(Date.now() + 300 * 86_400_000).toISOString(),
      ...(await stepUp()),
      ...fields,
    });
  const list = async (address: string, changes: Record<string, string> = {}) => {
    const body = { address, label: "cold", ...(await stepUp()) };
    expect(
      (await apiOf(user, changes).post("/custody/create-withdrawal-address", body)).status,
    ).toBe(201);
  };
  return { user, asset, ask, list };
}

const signerOf = ({ json }: { json: any }) =>
  apiOf({ apiKeyId: json.api_key_id, secret: json.secret });

const scopesOf = async (key: { json: any }): Promise<string[]> => {
  forgetAllCredentials();
  return (await signerOf(key).get("/auth/whoami")).json["scopes"];
};

const kindsOf = async (user: TestUser) =>
  (await apiOf(user).list("/auth/get-audit-events?limit=100"))
    .map(({ kind }) => String(kind))
    .filter((kind) => kind.startsWith("api_key_activ"));

const notice = async () => {
  while (await noticeKeys(env.DB, settings(), async () => {}));
};

it("pays addresses whose delay has passed, and no other", async () => {
  const { user, asset, ask, list } = await newOwner();
  const [old, young, foreign] = [newAddress(), newAddress(), newAddress()];
  await list(old);
  await list(young, DAY);
  const key = await ask();
  expect(key.json).toMatchObject({ only_listed: true, addresses: null, approved_at: null });
  const pay = (to_address: string, id: string) =>
    signerOf(key).post("/custody/withdraw", {
      client_withdrawal_id: id,
      amount: "10",
      to_address,
      ...asset,
    });
  expect((await pay(old, "old")).status).toBe(202);
  for (const to of [young, foreign]) {
    const refused = await pay(to, to);
    expect(await codeOf(refused)).toBe("409 address_not_listed");
    expect(refused.json["active_from"] === null).toBe(to === foreign);
  }
  // An edit by SQL makes no entry older, and no key wider.
  await all(
    env.DB,
    sql`UPDATE withdrawal_addresses SET active_from = 1 WHERE user_id = ${uuid(user.userId)}`,
  );
  expect(await codeOf(await pay(young, "edited"))).toBe("409 address_not_listed");
  await all(env.DB, sql`UPDATE api_keys SET limits = NULL WHERE user_id = ${uuid(user.userId)}`);
  expect(await codeOf(await pay(foreign, "cached"))).toBe("409 address_not_listed");
  forgetAllCredentials();
  expect(await codeOf(await pay(foreign, "widened"))).toBe("401 api_key_unknown");
});

it("pays only the addresses that it names", async () => {
  const { asset, ask, list } = await newOwner();
  const [named, other] = [newAddress(), newAddress()];
  await list(named);
  await list(other);
  const key = await ask({ addresses: [named, named.toUpperCase().replace("0X", "0x")] });
  expect(key.json["addresses"].map((one: string) => one.toLowerCase())).toEqual([named]);
  const pay = (to_address: string) =>
    signerOf(key).post("/custody/withdraw", {
      client_withdrawal_id: to_address,
      amount: "10",
      to_address,
      ...asset,
    });
  expect((await pay(named)).status).toBe(202);
  const refused = await pay(other);
  expect([await codeOf(refused), refused.json["detail"]]).toEqual([
    "409 address_not_listed",
    "The API key pays only to the addresses that it names.",
  ]);
});

it("waits for the delay, tells the owner at half time and at the end, once", async () => {
  const { user, ask } = await newOwner();
  const key = await ask({}, { AUTH_SECURITY_DELAY_SECS: "3" });
  const created = Date.now();
  expect(await scopesOf(key)).toEqual([]);
  await notice();
  if (Date.now() - created < 1_000) expect(await kindsOf(user)).toEqual([]);
  await sleep(1_700);
  await notice();
  await notice();
  expect(await kindsOf(user)).toContain("api_key_activating");
  await sleep(Math.max(0, created + 3_100 - Date.now()));
  expect(await scopesOf(key)).toEqual(["read", "withdraw"]);
  await notice();
  await notice();
  expect(await kindsOf(user)).toEqual(["api_key_active", "api_key_activating"]);
});

it.each([
  [
    "the owner revokes it",
    async (user: TestUser, id: string) => void (await apiOf(user).delete(KEYS, { api_key_id: id })),
  ],
  [
    "the owner freezes the account",
    async (user: TestUser) => void (await apiOf(user).post("/auth/freeze", {})),
  ],
] as const)("has no scopes and no notice if %s while it waits", async (_, stop) => {
  const { user, ask } = await newOwner();
  const key = await ask({}, DAY);
  await all(
    env.DB,
    sql`UPDATE api_keys SET created_at = created_at - 86000000
      WHERE api_key_id = ${uuid(key.json["api_key_id"])}`,
  );
  await stop(user, key.json["api_key_id"]);
  await notice();
  const [row] = await all<{ revoked: number | null }>(
    env.DB,
    sql`SELECT revoked_at AS revoked FROM api_keys
      WHERE api_key_id = ${uuid(key.json["api_key_id"])}`,
  );
  expect(row?.revoked).not.toBeNull();
  const told = await all(
    env.DB,
    sql`SELECT 1 FROM audit_events WHERE subject_id = ${key.json["api_key_id"]}
      AND kind IN ('api_key_activating', 'api_key_active')`,
  );
  expect(told).toEqual([]);
});

it("waits for the operator without TOTP, or if the setting says so", async () => {
  const { ask } = await newOwner();
  expect((await ask({}, { AUTH_LISTED_KEYS: "off" })).json).toMatchObject({ active_from: null });
  const plain = await newUserWithPassword();
  const answer = await apiOf(plain).post(KEYS, {
    label: "treasury",
    scopes: ["withdraw"],
    request_approval: true,
    only_listed: true,
    allowed_ips: ["10.0.0.0/8"],
    expires_at: new Date(Date.now() + 86_400_000).toISOString(),
    password: PASSWORD,
  });
  expect(answer.json).toMatchObject({ only_listed: true, active_from: null });
});

it.each([
  [{ request_approval: false, scopes: ["read"] }, "body.only_listed"],
  [{ only_listed: false, addresses: [newAddress()] }, "body.addresses"],
  [{ addresses: [] }, "body.addresses"],
  [{ addresses: ["0x12"] }, "body.addresses.0"],
])("names the field of %o that is wrong", async (fields, path) => {
  const { ask } = await newOwner();
  const { status, json } = await ask(fields);
  expect([status, json["errors"][0].path]).toEqual([400, path]);
});

it("is listed for operators, with what it pays", async () => {
  const { user, ask } = await newOwner();
  const key = await ask({}, DAY);
  const listed = await sendOrder(orderOf(["api-key", "list"], { "user-id": user.userId }));
  expect(JSON.stringify(listed)).toContain(`"pays":"all"`);
  expect(JSON.stringify(listed)).toContain(key.json["api_key_id"]);
});
