/** Events of an account reach its webhooks whole and in order. */
import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { readEndpoint, secretsAt } from "../../src/feeds/webhooks/endpoints.ts";
import { Deliveries } from "../../src/feeds/webhooks/deliveries.ts";
import type { Webhook } from "../../src/feeds/webhooks/webhook.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { writeNotices } from "../support/events.ts";
import { apiOf, settings } from "../support/http.ts";
import { command, openMarket, placeQuote, submit } from "../support/market.ts";
import { withStatements } from "../support/slow-database.ts";
import { expectSigned } from "../support/receiver.ts";
import { connect } from "../support/sockets.ts";
import { newKey, newUserWithPassword, PASSWORD, type TestUser } from "../support/users.ts";
import { newWebhook, objectOf, passNow } from "../support/webhooks.ts";
import { pushNotices } from "../../src/streams/notice.ts";
import { accountStream } from "../../src/streams/event-log.ts";

type Hook = Awaited<ReturnType<typeof newWebhook>>;

const seqsOf = async ({ receiver }: Hook): Promise<number[]> =>
  (await receiver.bodies()).map(({ seq }) => seq);
const kindsOf = async ({ receiver }: Hook): Promise<string[]> =>
  (await receiver.bodies()).map(({ data }) => data.kind);
const arrived = (hook: Hook, count: number) =>
  expect.poll(() => seqsOf(hook), { timeout: 10_000 }).toHaveLength(count);
const stateOf = async (user: TestUser, { id }: Hook) => {
  const { json } = await apiOf(user).get("/account/get-webhooks");
  return json["webhooks"].find((hook: { endpoint_id: string }) => hook.endpoint_id === id);
};
/** Notices that say nothing, and the word that there are some. */
async function write(user: TestUser, count = 1): Promise<void> {
  await writeNotices(user, count);
  await pushNotices(env, user.userId);
}

/** A market whose maker has a password, which webhooks need. */
async function newMarket() {
  const market = await openMarket();
  const { userId } = await newUserWithPassword();
  await all(
    env.DB,
    sql`UPDATE users SET password_hash =
        (SELECT password_hash FROM users WHERE user_id = ${uuid(userId)})
      WHERE user_id = ${uuid(market.maker.userId)}`,
  );
  return market;
}

it("delivers the bytes of the account's events, signed, but no quotes", async () => {
  const { requester, maker, request } = await newMarket();
  const hook = await newWebhook(maker);
  const quote = await placeQuote(maker, request.request_id, 500_000);
  await submit(command.accept(requester, quote.quote_id));
  await arrived(hook, 2);
  const { text, json } = await apiOf(maker).get("/account/events");
  const received = await hook.receiver.received();
  for (const delivery of received) {
    expectSigned(delivery, [hook.secret]);
    expect(text).toContain(delivery.body);
    const { seq } = JSON.parse(delivery.body) as { seq: number };
    expect(delivery.headers["webhook-id"]).toBe(`${accountStream(maker.userId)}:${seq}`);
  }
  expect((await hook.receiver.bodies()).map(({ type }) => type)).toEqual([
    "account.notice",
    "match.created",
  ]);
  expect(json["items"].length).toBeGreaterThan(2);
});

it("is woken by events of its types only", async () => {
  const { requester, maker, request } = await newMarket();
  const hooks = [await newWebhook(maker, ["account.notice"]), await newWebhook(maker)] as const;
  await arrived(hooks[0], 2);
  await arrived(hooks[1], 1);
  const subscriber = await connect(maker, accountStream(maker.userId));
  const alarmOf = ({ id }: Hook) =>
    runInDurableObject(objectOf(id), (_: Webhook, { storage }) => storage.getAlarm());
  const alarms = () => Promise.all(hooks.map(alarmOf));
  const resting = async () => Math.min(...(await alarms()).map(Number)) > Date.now() + 60_000;
  await expect.poll(resting).toBe(true);
  const before = await alarms();
  const quote = await placeQuote(maker, request.request_id, 500_000);
  await subscriber.until("quote.opened");
  expect(await alarms()).toEqual(before);
  await submit(command.accept(requester, quote.quote_id));
  await arrived(hooks[1], 2);
  expect(await alarmOf(hooks[0])).toBe(before[0]);
});

it.each([500, 302, 0] as const)("holds events back after %s, and repeats the id", async (how) => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  await hook.receiver.answer(how);
  await write(user, 3);
  await arrived(hook, 2);
  await passNow(hook.id);
  const { json } = await apiOf(user).get(`/account/get-webhook-attempts?endpoint_id=${hook.id}`);
  expect(json["attempts"]).toMatchObject([
    { accepted: false, status: how === 0 ? null : how },
    { accepted: false },
    { accepted: true, status: 200 },
  ]);
  await hook.receiver.answer(200);
  await passNow(hook.id);
  await arrived(hook, 6);
  const received = await hook.receiver.received();
  const ids = received.map(({ headers }) => Number(headers["webhook-id"]?.split(":").at(-1)));
  const first = ids[0] ?? 0;
  expect(ids).toEqual([0, 1, 1, 1, 2, 3].map((n) => first + n));
  expect(await stateOf(user, hook)).toMatchObject({ disabled_at: null });
});

it("ends with 410, and tells the owner from which number", async () => {
  const user = await newUserWithPassword();
  const [hook, other] = [await newWebhook(user), await newWebhook(user)];
  await arrived(hook, 2);
  await hook.receiver.answer(410);
  await write(user, 2);
  await expect.poll(() => kindsOf(other)).toContain("webhook_disabled");
  const last = (await seqsOf(hook)).at(-1);
  expect(await stateOf(user, hook)).toMatchObject({ disabled_reason: "gone", disabled_seq: last });
  const count = (await seqsOf(hook)).length;
  await write(user);
  await expect.poll(async () => (await kindsOf(other)).length).toBe(5);
  expect(await seqsOf(hook)).toHaveLength(count);
});

it.each([
  [
    "full",
    "INSERT INTO waiting WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 10001) " +
      "SELECT -i, unixepoch() * 1000, '{}' FROM n",
  ],
  ["late", "INSERT INTO waiting VALUES (-10001, 1, '{}')"],
])("ends when its storage is %s", async (reason, fill) => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  await runInDurableObject(objectOf(hook.id), (_: Webhook, { storage }) => {
    storage.sql.exec(fill);
  });
  await passNow(hook.id);
  expect(await stateOf(user, hook)).toMatchObject({
    disabled_reason: reason,
    disabled_seq: -10_001,
  });
  expect(await seqsOf(hook)).toHaveLength(1);
});

it("loses and reorders nothing while its object is evicted", { timeout: 60_000 }, async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  for (let round = 0; round < 10; round++) {
    const writing = write(user, 5);
    await evictDurableObject(objectOf(hook.id), { webSockets: "close" }).catch(() => {});
    await writing;
  }
  await expect.poll(async () => new Set(await seqsOf(hook)).size, { timeout: 30_000 }).toBe(51);
  const seqs = await seqsOf(hook);
  expect(seqs.filter((seq, n) => seqs.indexOf(seq) === n)).toEqual(
    Array.from({ length: 51 }, (_, n) => (seqs[0] ?? 0) + n),
  );
});

class Killed extends Error {}

/** Every call of `of`, and of what its members return, counts. From the call `at` on all throw. */
function killedAt<T extends object>(of: T, step: () => void): T {
  return new Proxy(of, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member === "function")
        return (...args: unknown[]) => {
          step();
          return (member as (...given: unknown[]) => unknown).apply(target, args);
        };
      return typeof member === "object" && member !== null ? killedAt(member, step) : member;
    },
  });
}

it("delivers each event after a death at any of its steps", { timeout: 90_000 }, async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  let died = true;
  let deaths = 0;
  for (; died; deaths++) {
    died = false;
    await writeNotices(user, 2);
    let left = deaths;
    const step = () => {
      if (left-- > 0) return;
      died = true;
      throw new Killed();
    };
    await runInDurableObject(objectOf(hook.id), async (_: Webhook, { storage }) => {
      storage.kv.put("listened", 0);
      try {
        const dying = { ...env, DB: killedAt(env.DB, step) };
        await new Deliveries(killedAt(storage, step), dying).alarm();
      } catch (error) {
        if (!(error instanceof Killed)) throw error;
      }
    });
    await passNow(hook.id);
    const seqs = await seqsOf(hook);
    expect(seqs.filter((seq, n) => seqs.indexOf(seq) === n)).toEqual(
      Array.from({ length: 1 + 2 * (deaths + 1) }, (_, n) => (seqs[0] ?? 0) + n),
    );
  }
  expect(deaths).toBeGreaterThan(20);
});

it("delivers nothing while the account is frozen, and everything after it", async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  await all(
    env.DB,
    sql`UPDATE users SET frozen_at = 1, frozen_by = 'self'
    WHERE user_id = ${uuid(user.userId)}`,
  );
  await write(user, 2);
  await passNow(hook.id);
  expect(await seqsOf(hook)).toHaveLength(1);
  await all(
    env.DB,
    sql`UPDATE users SET frozen_at = NULL, frozen_by = NULL
    WHERE user_id = ${uuid(user.userId)}`,
  );
  await passNow(hook.id);
  expect(await seqsOf(hook)).toHaveLength(3);
});

it("ends within a pass that has more to deliver", async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  await writeNotices(user, 3);
  await runInDurableObject(objectOf(hook.id), async (_: Webhook, { storage }) => {
    let reads = 0;
    const db = withStatements(env.DB, async ([text = ""]) => {
      if (!text.includes("FROM webhook_endpoints") || ++reads < 2) return;
      await all(
        env.DB,
        sql`UPDATE webhook_endpoints SET disabled_at = 1, disabled_reason = 'revoked'
          WHERE endpoint_id = ${uuid(hook.id)}`,
      );
    });
    await new Deliveries(storage, { ...env, DB: db }).alarm();
  });
  expect(await seqsOf(hook)).toHaveLength(2);
});

it("shows a key the host of its URL only", async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  const key = await newKey(user, ["read"]);
  const { json } = await apiOf(key).get("/account/get-webhooks");
  expect(json["webhooks"]).toMatchObject([{ url: new URL(hook.receiver.url).origin }]);
  expect(await stateOf(user, hook)).toMatchObject({ url: hook.receiver.url });
});

it("ends with the keys when sessions end, as a thief may have made it", async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  const key = await newKey(user, ["read"]);
  expect((await apiOf(user).delete("/auth/sessions?revoke_keys=true")).status).toBe(200);
  await passNow(hook.id);
  expect(
    await all(
      env.DB,
      sql`SELECT disabled_reason AS reason FROM webhook_endpoints
    WHERE user_id = ${uuid(user.userId)}`,
    ),
  ).toEqual([{ reason: "revoked" }]);
  expect(await kindsOf(hook)).toEqual(
    ["webhook_created", "api_key_created"].slice(0, (await kindsOf(hook)).length),
  );
  expect(key.apiKeyId).toBeTruthy();
});

it("signs with both secrets after a rotation, and with the new one a day later", async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  const terms = { endpoint_id: hook.id, password: PASSWORD };
  const { json } = await apiOf(user).post("/account/rotate-webhook-secret", terms);
  await arrived(hook, 2);
  expectSigned((await hook.receiver.received())[1]!, [json["secret"], hook.secret]);
  const { json: third } = await apiOf(user).post("/account/rotate-webhook-secret", terms);
  await arrived(hook, 3);
  expectSigned((await hook.receiver.received())[2]!, [third["secret"], json["secret"]]);
  const endpoint = await readEndpoint(env.DB, hook.id);
  const secretsIn = (hours: number) =>
    secretsAt(settings(), endpoint!, Date.now() + hours * 3_600_000);
  expect(await secretsIn(23.9)).toEqual([third["secret"], json["secret"]]);
  expect(await secretsIn(24)).toEqual([third["secret"]]);
});

it("sends a test and lists it, but not one after another", async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  await hook.receiver.answer(202);
  const test = () => apiOf(user).post("/account/test-webhook", { endpoint_id: hook.id });
  const { json } = await test();
  expect(json).toMatchObject({ accepted: true, status: 202 });
  expect((await hook.receiver.bodies())[1]).toMatchObject({ type: "webhook.test", data: {} });
  expect((await test()).status).toBe(429);
  await runInDurableObject(objectOf(hook.id), (_: Webhook, { storage }) => {
    for (let n = 0; n < 150; n++)
      storage.sql.exec("INSERT INTO attempts (message, at, accepted) VALUES ('x', 1, 0)");
  });
  await write(user);
  await arrived(hook, 3);
  const list = await apiOf(user).get(`/account/get-webhook-attempts?endpoint_id=${hook.id}`);
  await expect.poll(async () => list.json["attempts"].length).toBe(100);
});

it("a removed webhook hears so and no more, and its object keeps nothing", async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  const { json } = await apiOf(user).delete(`/account/webhook?endpoint_id=${hook.id}`);
  expect(json).toMatchObject({ endpoint_id: hook.id });
  await write(user);
  await runInDurableObject(objectOf(hook.id), async (object: Webhook, { storage }) => {
    storage.kv.put("first_woken", 0);
    await object.alarm();
    expect([...storage.kv.list()]).toEqual([]);
  });
  const received = await hook.receiver.bodies();
  expect(received.slice(1)).toMatchObject([{ type: "webhook.removed", data: {} }]);
  expect(
    await all(
      env.DB,
      sql`SELECT 1 FROM stream_subscribers WHERE name = ${accountStream(user.userId)}`,
    ),
  ).toEqual([]);
});

it("stays subscribed beside sockets that come and go", async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  const subscriber = await connect(user, accountStream(user.userId));
  await write(user);
  await subscriber.until("account.notice");
  subscriber.socket.close(1000);
  await subscriber.untilClosed();
  await write(user);
  await arrived(hook, 3);
});

it("receivers that never answer delay nobody else", { timeout: 60_000 }, async () => {
  const user = await newUserWithPassword();
  const hook = await newWebhook(user);
  await arrived(hook, 1);
  const silent = await Promise.all(
    Array.from({ length: 15 }, async () => {
      const one = await newUserWithPassword();
      const silentHook = await newWebhook(one);
      await silentHook.receiver.answer(1);
      return one;
    }),
  );
  await Promise.all(silent.map((one) => write(one)));
  const began = Date.now();
  await write(user);
  await arrived(hook, 2);
  expect(Date.now() - began).toBeLessThan(5_000);
});

it("delivers nothing to a URL that SQL wrote", async () => {
  const user = await newUserWithPassword();
  const [hook, thief] = [await newWebhook(user), await newWebhook(user)];
  await arrived(hook, 2);
  await arrived(thief, 1);
  await all(
    env.DB,
    sql`UPDATE webhook_endpoints SET url = ${thief.receiver.url}
    WHERE endpoint_id = ${uuid(hook.id)}`,
  );
  const before = (await thief.receiver.received()).length;
  await all(env.DB, sql`DELETE FROM webhook_endpoints WHERE endpoint_id = ${uuid(thief.id)}`);
  await write(user);
  await passNow(hook.id);
  expect(await thief.receiver.received()).toHaveLength(before);
});
