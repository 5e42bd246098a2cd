/** GET /status is read from the one row that cron writes. */
import { applyD1Migrations, createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import { measure } from "../../src/operator/measure.ts";
import type { AlertKind } from "../../src/platform/alert-kinds.ts";
import { clearAlert, raiseAlert } from "../../src/platform/alert.ts";
import { limited, queriesMade } from "../../src/platform/query-limit.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { app, BASE, send } from "../support/http.ts";

const db = env.LEVELS_DB;
const OK = { trading: "ok", deposits: "ok", withdrawals: "ok" };
const SLOW = { ...OK, deposits: "slow", withdrawals: "slow" };
const UNKNOWN = { trading: "unknown", deposits: "unknown", withdrawals: "unknown" };

beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));
afterEach(() => void vi.useRealTimers());

async function status(changes: object = {}): Promise<Record<string, unknown>> {
  const response = await send("/status", { env: { DB: db, ...changes } });
  expect(response.status).toBe(200);
  expect(response.headers.get("cache-control")).toBe("public, max-age=10");
  const { measured_at, ...components } = await response.json<Record<string, unknown>>();
  expect(measured_at === null || typeof measured_at === "string").toBe(true);
  return components;
}
const measured = async () => {
  await measure({ ...env, DB: db }, new Map());
  return status();
};

it("is unknown before cron has measured, and without the database", async () => {
  await all(db, sql`DELETE FROM service_levels`);
  expect(await status()).toEqual(UNKNOWN);
  expect(await measured()).toEqual(OK);
  const broken = {
    prepare: () => {
      throw new Error("D1_ERROR: away");
    },
  };
  expect(await status({ DB: broken })).toEqual(UNKNOWN);
});

it.each<[kind: AlertKind, shown: object]>([
  ["chain_unreachable", SLOW],
  ["clock_ahead", { ...OK, trading: "paused" }],
  ["chain_halted", { ...OK, deposits: "paused", withdrawals: "paused" }],
  ["payer_halted", { ...OK, withdrawals: "paused" }],
  ["withdrawal_late", { ...OK, withdrawals: "slow" }],
])("shows an open %s until it is closed", async (kind, shown) => {
  await raiseAlert(db, kind, "local", "a test");
  expect(await measured()).toEqual(shown);
  await clearAlert(db, kind, "local");
  expect(await measured()).toEqual(OK);
});

it("is slow while a chain makes no blocks, long before there is an alert", async () => {
  const moved = (secsAgo: number) =>
    all(
      db,
      sql`INSERT OR REPLACE INTO chain_cursors (chain, confirmed_number, confirmed_hash,
          scanned_number, scanned_hash, head_number, moved_group, moved_at)
        VALUES ('local', 0, x'00', 0, x'00', 0, 0, ${Date.now() - secsAgo * 1_000})`,
    );
  await moved(180);
  expect(await measured()).toEqual(SLOW);
  await moved(10);
  expect(await measured()).toEqual(OK);
  await all(db, sql`DELETE FROM chain_cursors`);
});

it("shows the worst of several", async () => {
  await raiseAlert(db, "chain_unreachable", "local", "a test");
  await raiseAlert(db, "payer_halted", "local", "a test");
  expect(await measured()).toEqual({ ...SLOW, withdrawals: "paused" });
  await all(db, sql`UPDATE alerts SET resolved_at = at`);
});

it.each<AlertKind>([
  "payment_unknown",
  "payment_terms",
  "withdrawal_altered",
  "key_row_altered",
  "schema_drift",
  "deposit_address_altered",
])("does not tell a thief that %s was noticed", async (kind) => {
  await raiseAlert(db, kind, "local", "a test");
  expect(await measured()).toEqual(OK);
  await clearAlert(db, kind, "local");
});

it("shows the switches, and a pause of all venues but not of one", async () => {
  await all(db, sql`INSERT INTO kill_switches VALUES ('withdrawals_paused', 'a test', 1)`);
  await all(db, sql`INSERT INTO paused_venues (venue, since) VALUES ('venue_one', 1)`);
  expect(await measured()).toEqual({ ...OK, withdrawals: "paused" });
  await all(db, sql`DELETE FROM kill_switches`);
  await all(db, sql`INSERT INTO kill_switches VALUES ('storage_full', 'a test', 1)`);
  expect(await measured()).toEqual({ ...OK, trading: "paused" });
  await all(db, sql`DELETE FROM kill_switches`);
  await all(
    db,
    sql`INSERT INTO paused_venues (venue, since)
    VALUES ('venue_two', 1), ('venue_three', 1), ('venue_four', 1)`,
  );
  expect(await measured()).toEqual({ ...OK, trading: "paused" });
  await all(db, sql`DELETE FROM paused_venues`);
});

it("says that it does not know when cron has not measured for three minutes", async () => {
  await measured();
  await all(db, sql`UPDATE service_levels SET at = at - 170000`);
  expect(await status()).toEqual(OK);
  await all(db, sql`UPDATE service_levels SET at = at - 20000`);
  expect(await status()).toEqual(UNKNOWN);
});

it("reads the database once in ten seconds, also when it is away", async () => {
  await measured();
  const counted = limited({ ...env, DB: db });
  const ask = async () => {
    const context = createExecutionContext();
    await app.hono.fetch(new Request(`${BASE}/status`), counted, context);
    return queriesMade(counted.DB).calls;
  };
  for (let call = 0; call < 5; call++) expect(await ask()).toBe(1);
  vi.useFakeTimers({ now: Date.now() + 9_000, toFake: ["Date"] });
  expect(await ask()).toBe(1);
  vi.setSystemTime(Date.now() + 1_500);
  expect(await ask()).toBe(2);
});
