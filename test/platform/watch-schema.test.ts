import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import expected from "../../migrations/expected.json" with { type: "json" };
import { watchSchema } from "../../src/platform/watch-schema.ts";
import { answerAlert } from "../support/pager.ts";

const db = env.DRIFTED_DB;

beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));

async function openAlerts(): Promise<Map<string, string>> {
  await watchSchema(db, { DEPLOY_ENV: "staging" });
  const { results } = await db
    .prepare(
      "SELECT subject, detail FROM alerts WHERE kind = 'schema_drift' AND resolved_at IS NULL",
    )
    .all<{ subject: string; detail: string }>();
  return new Map(results.map(({ subject, detail }) => [subject, detail]));
}

describe("the watch of the schema", () => {
  it("finds a migrated database as the code expects it", async () => {
    expect(Object.keys(expected.objects).length).toBeGreaterThan(200);
    expect(await openAlerts()).toEqual(new Map());
  });

  it.each([
    {
      what: "a guard that is gone",
      object: "trigger withdrawals_terms",
      change: "DROP TRIGGER withdrawals_terms",
    },
    {
      what: "a guard with another text",
      object: "trigger transfers_update",
      change: `DROP TRIGGER transfers_update;
        CREATE TRIGGER transfers_update BEFORE UPDATE ON transfers BEGIN SELECT 1; END`,
    },
    {
      what: "a trigger that somebody added",
      object: "trigger thief",
      change: `CREATE TRIGGER thief AFTER INSERT ON withdrawals BEGIN
        UPDATE withdrawals SET to_address = x'00' WHERE withdrawal_id = NEW.withdrawal_id; END`,
    },
    {
      what: "a trigger with the name of a table that is not ours",
      object: "trigger d1_migrations",
      change: `CREATE TRIGGER d1_migrations AFTER INSERT ON markets BEGIN SELECT 1; END`,
    },
    {
      what: "a table without its key",
      object: "index deposits_identity",
      change: "DROP INDEX deposits_identity",
    },
  ])("names $what until it is mended", async ({ object, change }) => {
    const [, name = ""] = object.split(" ");
    const type = object.startsWith("index") ? "INDEX" : "TRIGGER";
    const before = await db
      .prepare("SELECT sql FROM sqlite_master WHERE name = ? AND type = ?")
      .bind(name, type.toLowerCase())
      .first<{ sql: string }>();
    for (const statement of change.split(/(?<=withdrawals_terms|transfers_update);/))
      await db.prepare(statement).run();
    const alerts = await openAlerts();
    expect([...alerts.keys()]).toEqual([object]);
    expect(alerts.get(object)).toContain(`npm run migrations -- mend '${object}' --env staging`);
    const end = async () => {
      await db.prepare(`DROP ${type} IF EXISTS ${name}`).run();
      if (before !== null) await db.prepare(before.sql).run();
      expect(await openAlerts()).toEqual(new Map());
    };
    await answerAlert("schema_drift", object, { db, end });
  });

  it("names a trigger also while the migrations differ", async () => {
    await db.prepare("CREATE TRIGGER thief AFTER INSERT ON markets BEGIN SELECT 1; END").run();
    await db.prepare("INSERT INTO d1_migrations (name) VALUES ('9999_thief.sql')").run();
    expect([...(await openAlerts()).keys()]).toEqual(["code", "trigger thief"]);
    await db.prepare("DROP TRIGGER thief").run();
    await db.prepare("DELETE FROM d1_migrations WHERE name = '9999_thief.sql'").run();
    expect(await openAlerts()).toEqual(new Map());
  });

  it("names a migration that was not applied", async () => {
    const [last] = env.TEST_MIGRATIONS.slice(-1);
    await db.prepare("DELETE FROM d1_migrations WHERE name = ?").bind(last?.name).run();
    const alerts = await openAlerts();
    expect([...alerts.keys()]).toEqual(["migrations"]);
    expect(alerts.get("migrations")).toContain("npm run deploy -- --env staging");
    await db.prepare("INSERT INTO d1_migrations (name) VALUES (?)").bind(last?.name).run();
    expect(await openAlerts()).toEqual(new Map());
  });
});
