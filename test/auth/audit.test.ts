import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { sealAudit, verifyAudit } from "../../src/auth/audit-seal.ts";
import { revokeApiKey } from "../../src/auth/api-key.ts";
import { all, first, sql } from "../../src/platform/sql.ts";
import { apiOf } from "../support/http.ts";
import { newKey, newUser } from "../support/users.ts";

type Row = { audit_seq: number };

/**
 * Runs a statement without the append-only triggers, as someone with access to the database could.
 */
async function tamper(statement: string): Promise<void> {
  const guards = await all<{ name: string; sql: string }>(
    env.DB,
    sql`SELECT name, sql FROM sqlite_master
      WHERE type = 'trigger' AND tbl_name IN ('audit_events', 'audit_seals')`,
  );
  await env.DB.batch([
    ...guards.map((guard) => env.DB.prepare(`DROP TRIGGER ${guard.name}`)),
    env.DB.prepare(statement),
    ...guards.map((guard) => env.DB.prepare(guard.sql)),
  ]);
}

let rows: Row[] = [];

beforeAll(async () => {
  const user = await newUser();
  for (let made = 0; made < 5; made++) await newKey(user, ["read"]);
  await sealAudit(env.DB);
  rows = await all<Row>(
    env.DB,
    sql`SELECT audit_seq FROM audit_events ORDER BY audit_seq DESC LIMIT 5`,
  );
});

const seqOf = (place: number) => rows[place]?.audit_seq ?? 0;

it("verifies an unchanged audit chain", async () => {
  const report = await verifyAudit(env.DB);
  expect(report).toMatchObject({ ok: true, discrepancies: [] });
  expect(report.verified).toBeGreaterThanOrEqual(5);
});

it("reports exactly the changed row", async () => {
  const seq = seqOf(2);
  const before = await first<{ actor: string }>(
    env.DB,
    sql`SELECT actor FROM audit_events WHERE audit_seq = ${seq}`,
  );
  await tamper(`UPDATE audit_events SET actor = 'operator:mallory' WHERE audit_seq = ${seq}`);
  expect((await verifyAudit(env.DB)).discrepancies).toEqual([{ auditSeq: seq, kind: "changed" }]);
  await tamper(`UPDATE audit_events SET actor = '${before?.actor ?? ""}' WHERE audit_seq = ${seq}`);
  expect((await verifyAudit(env.DB)).ok).toBe(true);
});

it("reports a missing row", async () => {
  const seq = seqOf(3);
  await tamper(`CREATE TABLE audit_taken AS SELECT * FROM audit_events WHERE audit_seq = ${seq}`);
  await tamper(`DELETE FROM audit_events WHERE audit_seq = ${seq}`);
  expect((await verifyAudit(env.DB)).discrepancies).toEqual([{ auditSeq: seq, kind: "missing" }]);
  await tamper("INSERT INTO audit_events SELECT * FROM audit_taken");
  await tamper("DROP TABLE audit_taken");
  expect((await verifyAudit(env.DB)).ok).toBe(true);
});

it("reports two swapped rows", async () => {
  const [a, b] = [seqOf(1), seqOf(2)];
  const swap = `UPDATE audit_events
    SET audit_seq = CASE audit_seq WHEN ${a} THEN -${b} WHEN ${b} THEN -${a} END
    WHERE audit_seq IN (${a}, ${b})`;
  const settle = "UPDATE audit_events SET audit_seq = -audit_seq WHERE audit_seq < 0";
  await tamper(swap);
  await tamper(settle);
  expect((await verifyAudit(env.DB)).discrepancies.map(({ auditSeq }) => auditSeq)).toEqual(
    [b, a].toSorted((x, y) => x - y),
  );
  await tamper(swap);
  await tamper(settle);
  expect((await verifyAudit(env.DB)).ok).toBe(true);
});

it("detects a truncated chain by the logged head", async () => {
  await newKey(await newUser(), ["read"]);
  const anchor = await sealAudit(env.DB);
  await tamper(`DELETE FROM audit_seals WHERE audit_seq = ${anchor.seq}`);
  await tamper(`DELETE FROM audit_events WHERE audit_seq = ${anchor.seq}`);
  expect((await verifyAudit(env.DB)).ok).toBe(true);
  expect((await verifyAudit(env.DB, anchor)).discrepancies).toEqual([
    { auditSeq: anchor.seq, kind: "truncated" },
  ]);
});

it("concurrent sealers produce one chain", async () => {
  const user = await newUser();
  await Promise.all([
    newKey(user, ["read"]),
    newKey(user, ["read"]),
    sealAudit(env.DB),
    sealAudit(env.DB),
    sealAudit(env.DB),
  ]);
  await sealAudit(env.DB);
  expect(await verifyAudit(env.DB)).toMatchObject({ ok: true, unsealed: 0 });
});

it.each([
  ["an update of an event", "UPDATE audit_events SET actor = 'x'"],
  ["a delete of an event", "DELETE FROM audit_events"],
  ["a replace by number", "INSERT OR REPLACE INTO audit_events SELECT * FROM audit_events LIMIT 1"],
  [
    "a replace by id",
    `INSERT OR REPLACE INTO audit_events (audit_event_id, kind, actor, at)
     SELECT audit_event_id, 'login', 'x', 0 FROM audit_events LIMIT 1`,
  ],
  [
    "an insert with an explicit number",
    `INSERT INTO audit_events (audit_seq, audit_event_id, kind, actor, at)
     VALUES (999999999, x'00112233445566778899aabbccddeeff', 'login', 'x', 0)`,
  ],
  ["an update of a seal", "UPDATE audit_seals SET hash = x'00'"],
  ["a delete of a seal", "DELETE FROM audit_seals"],
  [
    "a replace of a seal",
    "INSERT OR REPLACE INTO audit_seals SELECT audit_seq, x'00', 0 FROM audit_seals LIMIT 1",
  ],
  [
    "a seal with a gap",
    "INSERT INTO audit_seals (audit_seq, hash, sealed_at) VALUES (999999999, x'00', 0)",
  ],
])("the database rejects %s", async (_name, statement) => {
  await expect(env.DB.prepare(statement).run()).rejects.toThrow(/append-only/);
});

it("lists only the user's own events, newest first", async () => {
  const user = await newUser();
  const other = await newUser();
  const keys = [await newKey(user, ["read"]), await newKey(user, ["read"])];
  await newKey(other, ["read"]);
  await revokeApiKey(env.DB, { apiKeyId: keys[0]?.apiKeyId ?? "", operator: "alice" });
  const api = apiOf(user);
  const { items } = (await api.get("/auth/get-audit-events")).json;
  expect(items).toMatchObject([
    { kind: "api_key_revoked", actor: "operator:alice", subject_id: keys[0]?.apiKeyId },
    { kind: "api_key_created", actor: "operator:test", subject_id: keys[1]?.apiKeyId },
    { kind: "api_key_created", actor: "operator:test", subject_id: keys[0]?.apiKeyId },
  ]);
  expect(await api.list("/auth/get-audit-events?limit=2")).toEqual(items);
});

it("pages events without showing how many events others caused", async () => {
  const user = await newUser();
  for (let made = 0; made < 3; made++) await newKey(user, ["read"]);
  const path = "/auth/get-audit-events?limit=1";
  const { items, next_cursor: cursor } = (await apiOf(user).get(path)).json;
  const position: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
  expect(position).toEqual([items[0].audit_event_id]);
  const next = `${path}&last_cursor=${cursor}`;
  expect((await apiOf(user).get(next)).json["items"]).toHaveLength(1);
  expect((await apiOf(await newUser()).get(next)).json).toEqual({ items: [], next_cursor: null });
});
