/** A credential in use waits for no read of D1, and is never served for longer than 4.5 s. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import {
  forgetAllCredentials,
  forgetCredentials,
  keyState,
  userState,
} from "../../src/auth/credential-cache.ts";
import { config } from "../../src/platform/config.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { countingCalls } from "../support/counting-database.ts";
import { newKey, newUser } from "../support/users.ts";

const START = Date.now();
beforeEach(() => void vi.useFakeTimers({ now: START, toFake: ["Date"] }));
afterEach(() => {
  vi.useRealTimers();
  forgetAllCredentials();
});

/** A key, and its look-ups at a time after the start. */
async function keyInUse() {
  const { userId } = await newUser();
  const { apiKeyId } = await newKey({ userId }, ["read"]);
  const { db, count } = countingCalls();
  const beside: Promise<unknown>[] = [];
  const at = (ms: number, database = db) => {
    vi.setSystemTime(START + ms);
    return keyState(database, config(env), apiKeyId, (work) => void beside.push(work));
  };
  const revoke = () =>
    all(env.DB, sql`UPDATE api_keys SET revoked_at = 1 WHERE api_key_id = ${uuid(apiKeyId)}`);
  await at(0);
  return { apiKeyId, userId, count, beside, at, revoke };
}

/** D1 whose reads do not end before `release`. */
function held() {
  const { promise, resolve: release } = Promise.withResolvers<void>();
  const db = new Proxy(env.DB, {
    get: (target, name) => (text: string) => ({
      bind: (...values: unknown[]) => ({
        all: async () => {
          const rows = await target
            .prepare(text)
            .bind(...values)
            .all();
          await promise;
          return rows;
        },
      }),
      name,
    }),
  });
  return { db, release };
}

it("reads a key once in three seconds, then beside a request", async () => {
  const { at, count, beside } = await keyInUse();
  await at(2_999);
  expect([count(), beside.length]).toEqual([1, 0]);
  await at(3_000);
  await Promise.all(beside);
  expect([count(), beside.length]).toEqual([2, 1]);
  await at(5_999);
  expect([count(), beside.length]).toEqual([2, 1]);
});

it("lets one request at a time read again, and another one if that read hangs", async () => {
  const { at, beside } = await keyInUse();
  const { db } = held();
  for (const ms of [3_000, 3_000, 3_499])
    expect(await at(ms, db)).toMatchObject({ revoked: false });
  expect(beside).toHaveLength(1);
  await at(3_500, db);
  expect(beside).toHaveLength(2);
});

it("never serves a key longer than 4.5 s, although the read beside hangs", async () => {
  const { at, revoke } = await keyInUse();
  await revoke();
  expect(await at(4_499, held().db)).toMatchObject({ revoked: false });
  expect(await at(4_500)).toMatchObject({ revoked: true });
});

it("counts the age from before the read", async () => {
  const { at, beside, revoke } = await keyInUse();
  const { db, release } = held();
  await at(3_000, db);
  await scheduler.wait(50);
  await revoke();
  vi.setSystemTime(START + 4_400);
  release();
  await Promise.all(beside);
  expect(await at(7_499)).toMatchObject({ revoked: false });
  expect(await at(7_500)).toMatchObject({ revoked: true });
});

it("serves a revocation as soon as the read beside a request has found it", async () => {
  const { at, beside, revoke } = await keyInUse();
  await revoke();
  expect(await at(3_000)).toMatchObject({ revoked: false });
  await Promise.all(beside);
  expect(await at(3_001)).toMatchObject({ revoked: true });
});

it("does not bring back a key that was forgotten during the read", async () => {
  const { userId, at, beside, revoke } = await keyInUse();
  const { db, release } = held();
  await at(3_000, db);
  await scheduler.wait(50);
  await revoke();
  forgetCredentials(userId);
  release();
  await Promise.all(beside);
  expect(await at(3_001)).toMatchObject({ revoked: true });
});

it("keeps a key whose read beside a request fails until it is too old", async () => {
  const { at, beside } = await keyInUse();
  const down = new Proxy(env.DB, {
    get: () => () => {
      throw new Error("D1_ERROR: down");
    },
  });
  expect(await at(3_000, down)).toMatchObject({ revoked: false });
  await Promise.all(beside);
  await expect(at(4_500, down)).rejects.toThrow("down");
});

it("reads the user of a session again in the same way", async () => {
  const { userId } = await newUser();
  const beside: Promise<unknown>[] = [];
  const at = (ms: number) => {
    vi.setSystemTime(START + ms);
    return userState(env.DB, userId, (work) => void beside.push(work));
  };
  await at(0);
  await all(env.DB, sql`UPDATE users SET session_epoch = 7 WHERE user_id = ${uuid(userId)}`);
  expect(await at(3_000)).toMatchObject({ epoch: 0 });
  await Promise.all(beside);
  expect(await at(3_001)).toMatchObject({ epoch: 7 });
});
