import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { all, sql } from "../../src/platform/sql.ts";
import { orderOf, sendOrder } from "../support/operator.ts";

const db = env.LISTED_DB;
beforeAll(async () => {
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
  // The first order records the list of operators.
  await order({});
});

const order = (options: Record<string, string>) =>
  sendOrder(orderOf(["audit", "list"], options), { DB: db });

async function list(options: Record<string, string> = {}) {
  const { result, next_cursor } = await order(options);
  const events = result.map(({ audit_seq, kind }) => ({ audit_seq: Number(audit_seq), kind }));
  return { events, next_cursor };
}

const happen = (kind: string, count: number) =>
  all(
    db,
    sql`INSERT INTO audit_events (audit_event_id, kind, actor, at)
      SELECT randomblob(16), ${kind}, 'unknown', ${Date.now()}
      FROM json_each(${JSON.stringify(Array.from({ length: count }))})`,
  );

it("pages through the events of one kind", async () => {
  await happen("login_failed", 5);
  await happen("login", 3);
  const first = await list({ kind: "login_failed", limit: "3" });
  const cursor = String(first.next_cursor);
  const second = await list({ kind: "login_failed", limit: "2", cursor });
  const seqs = [...first.events, ...second.events].map(({ audit_seq }) => audit_seq);
  expect(first.events).toHaveLength(3);
  expect(seqs).toEqual(Array.from({ length: 5 }, (_, index) => (seqs[0] ?? 0) - index));
  expect([...first.events, ...second.events].every(({ kind }) => kind === "login_failed")).toBe(
    true,
  );
  expect((await list({ limit: "3" })).events.map(({ kind }) => kind)).toEqual(
    Array.from({ length: 3 }, () => "login"),
  );
});

it("leaves seals of the journal out unless they are asked for", async () => {
  await happen("journal_sealed", 4);
  const kinds = async (options: Record<string, string>) =>
    new Set((await list({ limit: "500", ...options })).events.map(({ kind }) => kind));
  expect(await kinds({})).not.toContain("journal_sealed");
  expect(await kinds({ kind: "journal_sealed" })).toEqual(new Set(["journal_sealed"]));
  expect(await kinds({ kind: "all" })).toEqual(
    new Set(["journal_sealed", "login", "login_failed", "operators_changed"]),
  );
});

it("searches a bounded part of the log, and says where the next page continues", async () => {
  await happen("sessions_searched", 1);
  const { events } = await list({ kind: "sessions_searched" });
  const rare = events[0]?.audit_seq ?? 0;
  await happen("login_failed", 20_001);
  const page = await list({ kind: "sessions_searched" });
  expect(page.events).toEqual([]);
  expect(page.next_cursor).toBe(String(rare + 2));
  const next = await list({ kind: "sessions_searched", cursor: String(page.next_cursor) });
  expect(next.events.map(({ audit_seq }) => audit_seq)).toContain(rare);
  expect((await list({ kind: "all", cursor: "1" })).next_cursor).toBeNull();
});

it("rejects a position that is no number", async () => {
  const { ok, problem } = await order({ cursor: "x" });
  expect(ok).toBe(false);
  expect(JSON.stringify(problem)).toContain("--cursor");
});
