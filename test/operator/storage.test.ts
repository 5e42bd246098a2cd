import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { orderOf, sendOrder } from "../support/operator.ts";
import { config } from "../../src/platform/config.ts";
import { STOPPING_ALERTS } from "../../src/platform/alert-kinds.ts";
import { watchSwitches } from "../../src/platform/kill-switches.ts";
import { databaseBytes, watchStorage } from "../../src/platform/storage.ts";
import { all, raw, sql, uuid } from "../../src/platform/sql.ts";
import { answerAlert } from "../support/pager.ts";
import { newUser, type TestUser } from "../support/users.ts";

type Part = { rows: number; bytes: number };
type Report = {
  bytes: number;
  growth_bytes_per_day: number | null;
  new_business_stops_on: string | null;
  full_on: string | null;
  tables: (Part & { table: string })[];
  users: (Part & { user_id: string })[];
};

async function report(options: Record<string, string> = {}): Promise<Report> {
  const { result } = await sendOrder(orderOf(["storage"], options));
  return result as unknown as Report;
}

async function fillWith(user: TestUser, requests: number): Promise<void> {
  await all(
    env.DB,
    sql`INSERT INTO requests (request_id, requester_id, asset, amount, side, disclosed, status,
        opened_at, expires_at, opened_group)
      SELECT randomblob(16), ${uuid(user.userId)}, 'venue_one:0x1', '1', 'Bid', 0, 'expired', 0, 0,
        0 FROM json_each(${JSON.stringify(Array.from({ length: requests }, () => 0))})`,
  );
}

it("shares the size out among tables and users", async () => {
  const [large, small] = [await newUser({ usdc: 1n }), await newUser()];
  await fillWith(large, 60_000);
  await fillWith(small, 20_000);
  const { bytes, tables, users } = await report({ limit: "2" });
  expect(bytes).toBe(await databaseBytes(env.DB));
  expect(tables[0]?.table).toBe("requests");
  for (const { table, rows } of tables) {
    const counted = await all(env.DB, sql`SELECT count(*) AS rows FROM ${raw(table)}`);
    expect(counted, table).toEqual([{ rows }]);
  }
  expect(users.map(({ user_id }) => user_id)).toEqual([large.userId, small.userId]);
  expect(users[0]?.rows).toBeGreaterThan(60_000);
  const total = tables.reduce((sum, table) => sum + table.bytes, 0);
  expect(Math.abs(total / bytes - 1)).toBeLessThan(0.01);
});

it("tells the growth a day and the day on which the database is full", async () => {
  await all(env.DB, sql`DELETE FROM storage_samples`);
  await watchStorage(env.DB, config(env));
  expect(await report()).toMatchObject({ growth_bytes_per_day: null, full_on: null });
  const now = await databaseBytes(env.DB);
  const twoDays = 2 * 86_400_000;
  await all(
    env.DB,
    sql`UPDATE storage_samples SET day = day - 2, at = at - ${twoDays},
      bytes = ${BigInt(now - 2_000_000)}`,
  );
  const { growth_bytes_per_day: growth, full_on, new_business_stops_on } = await report();
  expect(growth).toBeGreaterThan(990_000);
  expect(growth).toBeLessThan(1_100_000);
  const days = (10_000_000_000 - now) / (growth ?? 1);
  expect(Math.abs(Date.parse(full_on ?? "") - Date.now() - days * 86_400_000)).toBeLessThan(
    86_400_000 * 2,
  );
  expect((new_business_stops_on ?? "") < (full_on ?? "")).toBe(true);
});

it("samples the size once a day", async () => {
  await watchStorage(env.DB, config(env));
  await watchStorage(env.DB, config(env));
  const today = await all(
    env.DB,
    sql`SELECT 1 FROM storage_samples WHERE day = unixepoch() / 86400`,
  );
  expect(today).toHaveLength(1);
});

it("sets the switch at four fifths of the limit and clears it below", async () => {
  const isFull = async () =>
    (await all(env.DB, sql`SELECT 1 FROM kill_switches WHERE name = 'storage_full'`)).length === 1;
  const mb = (await databaseBytes(env.DB)) / 1_000_000;
  await watchStorage(env.DB, { STORAGE_LIMIT_MB: mb / 0.81 });
  expect(await isFull()).toBe(true);
  await watchStorage(env.DB, { STORAGE_LIMIT_MB: mb / 0.79 });
  expect(await isFull()).toBe(false);
  await answerAlert("storage_filling", "d1", { end: () => watchStorage(env.DB, config(env)) });
});

it("pages while the switch is on, and keeps the heartbeat back", async () => {
  const mb = (await databaseBytes(env.DB)) / 1_000_000;
  await watchStorage(env.DB, { STORAGE_LIMIT_MB: mb / 0.81 });
  await watchSwitches(env.DB);
  const end = async () => {
    await watchStorage(env.DB, config(env));
    await watchSwitches(env.DB);
  };
  expect(STOPPING_ALERTS).toContain("storage_full");
  await answerAlert("storage_full", "service", { end });
});
