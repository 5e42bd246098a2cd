/** Who may say where events go, and where they may go. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { webhookUrl } from "../../src/feeds/webhooks/webhook-url.ts";
import { rewrapKeys } from "../../src/auth/rewrap-keys.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, codeOf, settings } from "../support/http.ts";
import { newKey, newUserWithPassword, PASSWORD } from "../support/users.ts";
import { newWebhook, objectOf } from "../support/webhooks.ts";

const CREATE = "/account/create-webhook";
// At loopback, because a name that nobody resolves holds up the thread of all tests.
const body = { url: "http://127.0.0.1:9/rfq", password: PASSWORD };

it("takes the password, a session, and at most two", async () => {
  const user = await newUserWithPassword();
  const key = await newKey(user, ["read", "trade"]);
  expect(await codeOf(await apiOf(user).post(CREATE, { ...body, password: "wrong" }))).toBe(
    "401 login_failed",
  );
  expect(await codeOf(await apiOf(key).post(CREATE, body))).toBe("403 session_required");
  const { json } = await apiOf(user).post(CREATE, body);
  await apiOf(user).post(CREATE, body);
  expect(await codeOf(await apiOf(user).post(CREATE, body))).toBe("409 webhook_limit");
  const { json: list } = await apiOf(key).get("/account/get-webhooks");
  expect(list["webhooks"]).toHaveLength(2);
  expect(JSON.stringify(list)).not.toContain("whsec_");
  const { json: audit } = await apiOf(user).get("/auth/get-audit-events");
  expect(audit["items"].map(({ kind }: { kind: string }) => kind)).toContain("webhook_created");
  expect(json["secret"]).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
});

it("is another user's for nobody", async () => {
  const [owner, other] = [await newUserWithPassword(), await newUserWithPassword()];
  const { id } = await newWebhook(owner);
  const fields = { endpoint_id: id };
  const calls = [
    apiOf(other).delete("/account/webhook", fields),
    apiOf(other).post("/account/test-webhook", fields),
    apiOf(other).post("/account/rotate-webhook-secret", { ...fields, password: PASSWORD }),
    apiOf(other).get(`/account/get-webhook-attempts?endpoint_id=${id}`),
  ];
  for (const call of calls) expect(await codeOf(await call)).toBe("404 webhook_unknown");
});

it.each([
  "http://hooks.example.com/",
  "https://hooks.example.com:8443/",
  "https://user@hooks.example.com/",
  "https://hooks.example.com/#x",
  "https://127.0.0.1/",
  "https://2130706433/",
  "https://0x7f.1/",
  "https://127.1/",
  "https://[::1]/",
  "https://[::ffff:10.0.0.1]/",
  "https://169.254.169.254/latest",
  "https://localhost/",
  "https://a.localhost./",
  "https://metadata.google.internal/",
  "https://printer.local/",
  "https://router.home.arpa/",
  "https://intranet/",
  "https://hooks.example.com\\@127.0.0.1/",
  "ftp://hooks.example.com/",
  `https://hooks.example.com/${"x".repeat(512)}`,
])("refuses %s", async (url) => {
  const allowed = webhookUrl(url);
  expect(allowed === undefined || new URL(allowed).hostname === "hooks.example.com").toBe(true);
  if (allowed !== undefined) return;
  const user = apiOf(await newUserWithPassword());
  expect(await codeOf(await user.post(CREATE, { ...body, url }))).toBe("400 invalid_request");
});

it("refuses loopback outside of local stacks", async () => {
  const user = await newUserWithPassword();
  const url = "http://127.0.0.1:9/";
  expect((await apiOf(user).post(CREATE, { ...body, url })).status).toBe(201);
  const deployed = apiOf(user, { WEBHOOK_LOOPBACK: "off" });
  expect(await codeOf(await deployed.post(CREATE, { ...body, url }))).toBe("400 invalid_request");
});

it("waits for the end of a security hold", async () => {
  const user = await newUserWithPassword();
  await all(
    env.DB,
    sql`UPDATE users SET hold_until = ${Date.now() + 60_000} WHERE user_id = ${uuid(user.userId)}`,
  );
  expect(await codeOf(await apiOf(user).post(CREATE, body))).toBe("403 security_hold");
});

it("opens its secrets with a newer master key after a rewrap", async () => {
  const user = await newUserWithPassword();
  const { id, receiver } = await newWebhook(user);
  await expect.poll(async () => (await receiver.received()).length).toBe(1);
  const old = JSON.parse(env.MASTER_KEYS) as Record<string, string>;
  const ring = { m2: "dGVzdC1tYXN0ZXIta2V5LTItMDEyMzQ1Njc4OWFiY2Q", ...old };
  await rewrapKeys(env.DB, settings({ MASTER_KEYS: ring }));
  const [row] = await all(
    env.DB,
    sql`SELECT master_key_id AS key FROM webhook_endpoints
    WHERE endpoint_id = ${uuid(id)}`,
  );
  expect(row).toEqual({ key: "m2" });
  // Back, for the other tests of this database.
  await rewrapKeys(env.DB, settings({ MASTER_KEYS: { ...old, m2: ring.m2 } }));
  expect(await objectOf(id).attempts()).toHaveLength(1);
});
