/** Account notices reach NOTICE_URL signed, are retried for a day, and stop nothing. */
import { createHash } from "node:crypto";
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { publicKeys } from "../../src/audit/signing-keys.ts";
import { deliverNotices, NOTICE_PAGE } from "../../src/auth/deliver-notices.ts";
import { all, first, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, settings } from "../support/http.ts";
import { edit } from "../support/ledger.ts";
import { newKey, newUser, type TestUser } from "../support/users.ts";

const URL = "https://mail.example/notices";
const ON = settings({ NOTICE_URL: URL });

type Call = { url: string; headers: Headers; body: string };

/** A receiver that answers with this status, or cannot be reached. */
type Notice = Readonly<Record<string, unknown>>;

function receiver(status: number | "away") {
  const calls: Call[] = [];
  const call = async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input as string, init as RequestInit);
    calls.push({ url: request.url, headers: request.headers, body: await request.text() });
    if (status === "away") throw new Error("connection refused");
    return new Response("accepted", { status });
  };
  const notices = () =>
    calls.flatMap(({ body }) => (JSON.parse(body) as { notices: Notice[] }).notices);
  return { calls, notices, call: call as typeof fetch };
}

const deliver = (to: ReturnType<typeof receiver>) => deliverNotices(env.DB, ON, to.call);
const isLate = async () =>
  (await first<{ n: number }>(
    env.DB,
    sql`SELECT count(*) AS n FROM alerts WHERE kind = 'notices_late' AND resolved_at IS NULL`,
  ))!.n === 1;
/** Lets time pass for the events of a user. */
const age = ({ userId }: TestUser, ms: number) =>
  edit(env.DB, "audit_events", [
    sql`UPDATE audit_events SET at = at - ${ms} WHERE user_id = ${uuid(userId)}`,
  ]);

beforeEach(() => deliver(receiver(200)));

it("delivers each notice once, with the user's email and a signature", async () => {
  const user = await newUser();
  const { apiKeyId } = await newKey(user, ["read"]);
  await apiOf(user).delete("/auth/api-keys", { api_key_id: apiKeyId });
  const mail = receiver(202);
  await deliver(mail);
  const common = { user_id: user.userId, email: user.email, subject_id: apiKeyId };
  expect(mail.notices()).toMatchObject([
    { kind: "api_key_created", actor: "operator:test", ...common },
    { kind: "api_key_revoked", actor: "session", ...common },
  ]);
  const [call] = mail.calls;
  if (call === undefined) throw new Error("no call");
  expect(call.url).toBe(URL);
  const { keys } = await publicKeys(ON);
  const jwk = keys.find(({ kid }) => kid === call.headers.get("x-notice-key-id"));
  const { kty, crv, x } = jwk!;
  const key = await crypto.subtle.importKey("jwk", { kty, crv, x }, "Ed25519", false, ["verify"]);
  const sha256 = createHash("sha256").update(call.body).digest("hex");
  const text = new TextEncoder().encode(`rfq-custody-notices-v1\ntest\n${sha256}`);
  const signature = Buffer.from(call.headers.get("x-notice-signature") ?? "", "base64url");
  expect(await crypto.subtle.verify("Ed25519", key, signature, text)).toBe(true);

  await deliver(mail);
  expect(mail.calls).toHaveLength(1);
});

it("delivers what is no notice to nobody, and nothing without NOTICE_URL", async () => {
  const user = await newUser();
  await apiOf(user).post("/custody/create-deposit-address", { chain: "local" });
  const mail = receiver(200);
  await deliver(mail);
  await newKey(user, ["read"]);
  await deliverNotices(env.DB, settings(), mail.call);
  expect(mail.calls).toEqual([]);
});

it.each([[500], [302], ["away"]] as const)(
  "retries after %s, and alerts when late",
  async (how) => {
    const user = await newUser();
    const { apiKeyId } = await newKey(user, ["read"]);
    const failing = receiver(how);
    await deliver(failing);
    expect(await isLate()).toBe(false);
    await age(user, 901_000);
    await deliver(failing);
    expect(failing.notices().map(({ subject_id }) => subject_id)).toEqual([apiKeyId, apiKeyId]);
    expect(await isLate()).toBe(true);
    const mail = receiver(200);
    await deliver(mail);
    expect(mail.notices()).toMatchObject([{ subject_id: apiKeyId }]);
    expect(await isLate()).toBe(false);
  },
);

it("drops a notice after 24 hours, and delivers later ones", async () => {
  const [old, recent] = [await newUser(), await newUser()];
  await newKey(old, ["read"]);
  await newKey(recent, ["read"]);
  await age(old, 86_401_000);
  const mail = receiver(200);
  await deliver(mail);
  expect(mail.notices()).toMatchObject([{ user_id: recent.userId }]);
});

it("delivers a backlog in calls of a bounded size", async () => {
  const user = await newUser();
  await all(
    env.DB,
    sql`INSERT INTO audit_events (audit_event_id, kind, actor, user_id, at)
      SELECT randomblob(16), 'login_new_network', 'password', ${uuid(user.userId)}, ${Date.now()}
      FROM json_each(${JSON.stringify(Array.from({ length: NOTICE_PAGE + 1 }))})`,
  );
  const mail = receiver(200);
  await deliver(mail);
  expect(mail.calls.map(({ body }) => JSON.parse(body).notices.length)).toEqual([NOTICE_PAGE, 1]);
});
