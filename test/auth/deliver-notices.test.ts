/** Account notices reach NOTICE_URL signed, in order, and stop nothing. */
import { env } from "cloudflare:workers";
import { beforeEach, expect, it } from "vitest";
import { deliverNotices, NOTICE_PAGE } from "../../src/auth/deliver-notices.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, settings } from "../support/http.ts";
import { expectSigned, newReceiver, SECRETS } from "../support/receiver.ts";
import { newKey, newUser } from "../support/users.ts";

async function deliver({ url }: { url: string }): Promise<void> {
  while (await deliverNotices(env.DB, settings({ NOTICE_URL: url, NOTICE_SECRETS: SECRETS })));
}

beforeEach(() => deliver(newReceiver()));

it("delivers each notice once, with the user's email and both signatures", async () => {
  const user = await newUser();
  const { apiKeyId } = await newKey(user, ["read"]);
  await apiOf(user).delete("/auth/api-keys", { api_key_id: apiKeyId });
  const mail = newReceiver();
  await deliver(mail);
  const common = { user_id: user.userId, email: user.email, subject_id: apiKeyId };
  const data = [
    { kind: "api_key_created", actor: "operator:test", ...common },
    { kind: "api_key_revoked", actor: "session", ...common },
  ];
  expect(await mail.bodies()).toMatchObject(
    data.map((notice) => ({ type: "account.notice", deployment: "test", data: notice })),
  );
  for (const received of await mail.received()) {
    expectSigned(received, SECRETS);
    const { data: notice } = JSON.parse(received.body);
    expect(received.headers["webhook-id"]).toBe(notice.audit_event_id);
  }
  await deliver(mail);
  expect(await mail.received()).toHaveLength(2);
});

it("sends the same id again after a failure", async () => {
  await newKey(await newUser(), ["read"]);
  const mail = newReceiver();
  await mail.answer(500);
  await deliver(mail);
  await mail.answer(200);
  await deliver(mail);
  const ids = (await mail.received()).map(({ headers }) => headers["webhook-id"]);
  expect(ids).toEqual([ids[0], ids[0]]);
});

it("delivers what is no notice to nobody, and nothing without NOTICE_URL", async () => {
  const user = await newUser();
  await apiOf(user).post("/custody/create-deposit-address", { chain: "local" });
  const mail = newReceiver();
  await deliver(mail);
  await newKey(user, ["read"]);
  await deliver({ url: "" });
  await deliver(mail);
  expect(await mail.received()).toEqual([]);
});

it("delivers a backlog in pages of a bounded size", async () => {
  const user = await newUser();
  await all(
    env.DB,
    sql`INSERT INTO audit_events (audit_event_id, kind, actor, user_id, at)
      SELECT randomblob(16), 'login_new_network', 'password', ${uuid(user.userId)}, ${Date.now()}
      FROM json_each(${JSON.stringify(Array.from({ length: NOTICE_PAGE + 1 }))})`,
  );
  const mail = newReceiver();
  await deliverNotices(env.DB, settings({ NOTICE_URL: mail.url, NOTICE_SECRETS: SECRETS }));
  expect(await mail.received()).toHaveLength(NOTICE_PAGE);
  await deliver(mail);
  expect(await mail.received()).toHaveLength(NOTICE_PAGE + 1);
});
