/** D1 limits the queries of an invocation, which a local D1 does not, so the limit is our own. */
import { applyD1Migrations, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { Cron, runCron, TASKS } from "../../src/cron.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { commit, newGroup } from "../../src/platform/commit.ts";
import { limited, queriesLeft, queriesMade } from "../../src/platform/query-limit.ts";
import { all, first, prepare, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { settings } from "../support/http.ts";
import { newUser } from "../support/users.ts";

const db = env.BACKLOG_DB;

beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));

type Invocation = { task: string; statements: number; calls: number };

/** Runs cron once on the database, without other objects. */
async function run(changes: object = {}): Promise<readonly Invocation[]> {
  const asleep = { getByName: () => ({ wake: async () => {} }) };
  const alone = { DB: db, CHAINS: "[]", VENUES: "[]", SEALER: asleep, ...changes };
  const counted = limited({ ...env, ...alone } as unknown as Env, Number.MAX_SAFE_INTEGER);
  const invocations: Invocation[] = [];
  await runInDurableObject(env.CRON.getByName(uuidv7()), async (_: Cron, ctx) => {
    const cron = new Cron(ctx, counted);
    const object = {
      run: async (task: string) => {
        const before = queriesMade(counted.DB);
        const more = await cron.run(task);
        const { statements, calls } = queriesMade(counted.DB);
        invocations.push({
          task,
          statements: statements - before.statements,
          calls: calls - before.calls,
        });
        return more;
      },
    };
    await runCron({ ...counted, CRON: { getByName: () => object } } as unknown as Env);
  });
  return invocations;
}

const sumOf = (invocations: readonly Invocation[], what: "statements" | "calls") =>
  invocations.reduce((sum, invocation) => sum + invocation[what], 0);

it("makes few round trips when nothing is due", async () => {
  await run();
  const invocations = await run();
  expect(invocations.map(({ task }) => task)).toEqual(TASKS.map(([name]) => name));
  expect(sumOf(invocations, "calls")).toBeLessThan(80);
});

it("keeps each invocation in its limit, and the brake works, with 60 000 transfers behind", async () => {
  await newUser({ usdc: 1n }, db);
  for (let count = 0; count < 12; count++)
    await all(
      db,
      sql`WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000)
        INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
        SELECT t.from_account, t.to_account, 1, 1, randomblob(16), 4, 0, t.at FROM n CROSS JOIN (
          SELECT * FROM transfers ORDER BY transfer_id DESC LIMIT 1) t`,
    );
  await all(
    db,
    sql`WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
      INSERT INTO commit_groups (group_id, at, voided) SELECT randomblob(16), g.at, 0
      FROM n CROSS JOIN (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1) g`,
  );
  const behindBy = sql`SELECT (SELECT max(transfer_id) FROM transfers) - t.position AS transfers,
      (SELECT max(seq) FROM commit_groups) - g.position < 500 AS groups_done
    FROM ledger_checkpoints t, ledger_checkpoints g
    WHERE t.scan = 'transfers' AND g.scan = 'groups'`;
  const isBehind = async () =>
    ((await first<{ transfers: number }>(db, behindBy))?.transfers ?? 1) > 0;
  const invocations = [...(await run({ STORAGE_LIMIT_MB: "1" }))];
  // On a busy machine the task reaches its deadline, and the next minute continues.
  for (let minute = 2; minute <= 5 && (await isBehind()); minute++)
    invocations.push(...(await run({ STORAGE_LIMIT_MB: "1" })));
  expect(Math.max(...invocations.map(({ statements }) => statements))).toBeLessThanOrEqual(500);
  expect(sumOf(invocations, "statements")).toBeGreaterThan(1_000);
  expect(await all(db, sql`SELECT name FROM kill_switches`)).toEqual([{ name: "storage_full" }]);
  expect(await first(db, behindBy)).toEqual({ transfers: 0, groups_done: 1 });
  const { differences } = await reconcile(db, { chains: [], macKeys: settings() });
  expect(differences.map(({ account }) => account)).toContain("external:local/external/usdc");
});

it("continues a full reconciliation that exceeds an invocation until it is complete", async () => {
  const ask = (full: true | "continue") =>
    reconcile(limited({ ...env, DB: db }).DB, { chains: [], macKeys: settings(), full });
  let { complete } = await ask(true);
  expect(complete).toBe(false);
  for (let call = 0; call < 20 && !complete; call++) ({ complete } = await ask("continue"));
  expect(complete).toBe(true);
});

it("does not run a task twice at once", async () => {
  let began = 0;
  let release = () => {};
  const hangs = new Promise<void>((resolve) => (release = resolve));
  const wake = async () => {
    began++;
    await hangs;
  };
  await runInDurableObject(env.CRON.getByName(uuidv7()), async (_: Cron, ctx) => {
    const SEALER = { getByName: () => ({ wake }) };
    const cron = new Cron(ctx, { ...env, SEALER } as unknown as Env);
    const late = cron.run("wake_sealer");
    expect(await cron.run("wake_sealer")).toBe(false);
    release();
    await late;
    expect(began).toBe(1);
    await cron.run("wake_sealer");
    expect(began).toBe(2);
  });
});

it("runs the brakes first, goes on after a failure, and calls again what has more to do", async () => {
  const called: string[] = [];
  const object = {
    run: async (task: string) => {
      called.push(task);
      if (task === "watch_storage") throw new Error("away");
      return task === "reconcile_recent" && called.filter((name) => name === task).length < 3;
    },
  };
  await runCron({ ...env, CRON: { getByName: () => object } } as unknown as Env);
  const names = TASKS.map(([name]) => name);
  expect(names.slice(0, 2)).toEqual(["watch_storage", "watch_switches"]);
  expect(called).toEqual(
    names.flatMap((name) => (name === "reconcile_recent" ? [name, name, name] : [name])),
  );
});

describe("the limit of an invocation", () => {
  it("counts each statement of a batch, and refuses before anything is sent", async () => {
    const { DB } = limited(env, 3);
    const one = sql`SELECT 1 AS one`;
    await all(DB, one);
    const id = uuidv7();
    const group = newGroup();
    const statements = [one, sql`SELECT ${id} AS id`, one];
    expect(await commit(DB, group, statements)).toMatchObject({ committed: false, reason: "lost" });
    expect(queriesMade(DB)).toEqual({ statements: 1, calls: 1 });
    await DB.batch([prepare(DB, one), prepare(DB, one)]);
    expect(queriesLeft(DB)).toBe(0);
    await expect(all(DB, one)).rejects.toThrow("has made 3 queries");
    expect(queriesLeft(env.DB)).toBe(Number.POSITIVE_INFINITY);
  });
});
