/** An operator who pauses a component. */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, it } from "vitest";
import { watchSwitches } from "../../src/platform/kill-switches.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { answerAlert } from "../support/pager.ts";

const db = env.LEVELS_DB;
beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));

async function end(): Promise<void> {
  await all(db, sql`DELETE FROM kill_switches`);
  await all(db, sql`DELETE FROM paused_venues`);
  await watchSwitches(db);
}

it("gets one alert while withdrawals are paused", async () => {
  await all(db, sql`INSERT INTO kill_switches VALUES ('withdrawals_paused', 'test', 1)`);
  await watchSwitches(db);
  await watchSwitches(db);
  await answerAlert("withdrawals_paused", "service", { db, end });
});

it("gets one alert while a venue is paused", async () => {
  await all(db, sql`INSERT INTO paused_venues (venue, since) VALUES ('venue_two', 1)`);
  await watchSwitches(db);
  await answerAlert("venue_paused", "venue_two", { db, end });
});
