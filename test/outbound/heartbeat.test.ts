/** HEARTBEAT_URL is called only while every part of the service is well. */
import { applyD1Migrations, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { Cron, runCron } from "../../src/cron.ts";
import { heartbeat } from "../../src/heartbeat.ts";
import { STOPPING_ALERTS } from "../../src/platform/alert-kinds.ts";
import { raiseAlert } from "../../src/platform/alert.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { newReceiver } from "../support/receiver.ts";

const db = env.HEARTBEAT_DB;
const asleep = { getByName: () => ({ wake: async () => {} }) };
const away = { getByName: () => ({ wake: () => Promise.reject(new Error("away")) }) };

function changed(url: string, change: object = {}): Env {
  const alone = { DB: db, CHAINS: "[]", VENUES: "[]", SEALER: asleep, DEPLOYMENT: "acme" };
  return { ...env, ...alone, HEARTBEAT_URL: url, ...change } as unknown as Env;
}

/** Runs cron once. Returns what the receiver got. */
async function callsInAMinute(change: object = {}): Promise<object[]> {
  const receiver = newReceiver();
  const settings = changed(receiver.url, change);
  await runInDurableObject(env.CRON.getByName(uuidv7()), async (_: Cron, ctx) => {
    const cron = new Cron(ctx, settings);
    await runCron({ ...settings, CRON: { getByName: () => cron } } as unknown as Env);
  });
  return receiver.bodies();
}

async function isCalled(change: object = {}): Promise<boolean> {
  const receiver = newReceiver();
  await heartbeat(changed(receiver.url, change), []);
  return (await receiver.received()).length === 1;
}
const resolveAll = () => all(db, sql`UPDATE alerts SET resolved_at = 1 WHERE resolved_at IS NULL`);

beforeAll(async () => {
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
  await resolveAll();
});

it("is called by cron when all its tasks have ended", async () => {
  expect(await callsInAMinute()).toEqual([{ deployment: "acme" }]);
});

it("is not called when a task of cron fails, such as one that wakes a payer", async () => {
  expect(await callsInAMinute({ SEALER: away })).toEqual([]);
  const chain = { CHAINS: env.CHAINS, CHAIN_WATCHER: asleep };
  expect(await callsInAMinute({ ...chain, PAYER: away })).toEqual([]);
});

it.each(STOPPING_ALERTS)("is not called while %s is open", async (kind) => {
  await raiseAlert(db, kind, "one", "detail");
  expect(await isCalled()).toBe(false);
  await resolveAll();
  expect(await isCalled()).toBe(true);
});

it("is called while another alert is open", async () => {
  await raiseAlert(db, "gas_low", "one", "detail");
  expect(await isCalled()).toBe(true);
  await resolveAll();
});

it("is not called while a chain has not moved for five minutes, or was never read", async () => {
  const change = { CHAINS: env.CHAINS };
  expect(await isCalled(change)).toBe(false);
  const moved = (ms: number) =>
    all(
      db,
      sql`INSERT OR REPLACE INTO chain_cursors (chain, confirmed_number, confirmed_hash,
          scanned_number, scanned_hash, head_number, moved_group, moved_at)
        VALUES ('local', 1, x'00', 1, x'00', 1, 1, ${Date.now() - ms})`,
    );
  await moved(301_000);
  expect(await isCalled(change)).toBe(false);
  await moved(0);
  expect(await isCalled(change)).toBe(true);
});

it("is not called if the reconciliation has not read what is new for five minutes", async () => {
  await all(
    db,
    sql`UPDATE ledger_checkpoints SET finished_at = finished_at - 301000 WHERE scan = 'groups'`,
  );
  expect(await isCalled()).toBe(false);
});
