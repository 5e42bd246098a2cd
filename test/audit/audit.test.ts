import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { anchorAudit, type AuditBucket } from "../../src/audit/anchor.ts";
import { signHead } from "../../src/audit/signing-keys.ts";
import { sealAudit } from "../../src/audit/seal.ts";
import { verifyAudit } from "../../src/audit/verify.ts";
import { revokeApiKey } from "../../src/auth/revoke-key.ts";
import { config } from "../../src/platform/config.ts";
import { all, first, sql } from "../../src/platform/sql.ts";
import { AWAY, memoryBucket } from "../support/audit-bucket.ts";
import { countingCalls } from "../support/counting-database.ts";
import { apiOf, send } from "../support/http.ts";
import { newKey, newUser } from "../support/users.ts";
import { answerAlert } from "../support/pager.ts";

type Row = { audit_seq: number };

const settings = config(env);
const randomSeed = () =>
  Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString("base64url");
const verify = (bucket: AuditBucket = env.AUDIT) => verifyAudit(env.DB, settings, { bucket });

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
  await anchorAudit(env.DB, env.AUDIT, settings);
  rows = await all<Row>(
    env.DB,
    sql`SELECT audit_seq FROM audit_events ORDER BY audit_seq DESC LIMIT 5`,
  );
});

const seqOf = (place: number) => rows[place]?.audit_seq ?? 0;

it("verifies an unchanged audit chain", async () => {
  const report = await verify();
  expect(report).toMatchObject({ ok: true, discrepancies: [] });
  expect(report.verified).toBeGreaterThanOrEqual(5);
});

it("verifies a long chain within the queries of one invocation", async () => {
  await all(
    env.DB,
    sql`INSERT INTO audit_events (audit_event_id, kind, actor, at)
      SELECT randomblob(16), 'login', 'password', ${Date.now()}
      FROM json_each(${JSON.stringify(Array.from({ length: 3_000 }))})`,
  );
  await anchorAudit(env.DB, env.AUDIT, settings);
  const { db, count } = countingCalls();
  const { ok, verified } = await verifyAudit(db, settings, { bucket: env.AUDIT });
  expect(ok).toBe(true);
  // D1 answers 1 000.
  expect(count()).toBeLessThan(8 + verified / 1_000);
});

it("reports exactly the changed row", async () => {
  const seq = seqOf(2);
  const before = await first<{ actor: string }>(
    env.DB,
    sql`SELECT actor FROM audit_events WHERE audit_seq = ${seq}`,
  );
  await tamper(`UPDATE audit_events SET actor = 'operator:mallory' WHERE audit_seq = ${seq}`);
  expect((await verify()).discrepancies).toEqual([{ auditSeq: seq, kind: "changed" }]);
  await tamper(`UPDATE audit_events SET actor = '${before?.actor ?? ""}' WHERE audit_seq = ${seq}`);
  expect((await verify()).ok).toBe(true);
});

it("reports a missing row", async () => {
  const seq = seqOf(3);
  await tamper(`CREATE TABLE audit_taken AS SELECT * FROM audit_events WHERE audit_seq = ${seq}`);
  await tamper(`DELETE FROM audit_events WHERE audit_seq = ${seq}`);
  expect((await verify()).discrepancies).toEqual([{ auditSeq: seq, kind: "missing" }]);
  await tamper("INSERT INTO audit_events SELECT * FROM audit_taken");
  await tamper("DROP TABLE audit_taken");
  expect((await verify()).ok).toBe(true);
});

it("reports two swapped rows", async () => {
  const [a, b] = [seqOf(1), seqOf(2)];
  const swap = `UPDATE audit_events
    SET audit_seq = CASE audit_seq WHEN ${a} THEN -${b} WHEN ${b} THEN -${a} END
    WHERE audit_seq IN (${a}, ${b})`;
  const settle = "UPDATE audit_events SET audit_seq = -audit_seq WHERE audit_seq < 0";
  await tamper(swap);
  await tamper(settle);
  expect((await verify()).discrepancies.map(({ auditSeq }) => auditSeq)).toEqual(
    [b, a].toSorted((x, y) => x - y),
  );
  await tamper(swap);
  await tamper(settle);
  expect((await verify()).ok).toBe(true);
});

it("finds a chain that was cut at its end, by the head in R2", async () => {
  await newKey(await newUser(), ["read"]);
  const bucket = memoryBucket();
  await anchorAudit(env.DB, bucket, settings);
  await newKey(await newUser(), ["read"]);
  await anchorAudit(env.DB, bucket, settings);
  const { head } = await verify(bucket);
  await tamper(
    `CREATE TABLE seals_taken AS SELECT * FROM audit_seals WHERE audit_seq = ${head.seq}`,
  );
  await tamper(
    `CREATE TABLE audit_taken AS SELECT * FROM audit_events WHERE audit_seq >= ${head.seq}`,
  );
  await tamper(`DELETE FROM audit_seals WHERE audit_seq = ${head.seq}`);
  await tamper(`DELETE FROM audit_events WHERE audit_seq >= ${head.seq}`);
  expect(await verify(bucket)).toMatchObject({
    verdict: "forged",
    discrepancies: [{ auditSeq: head.seq, kind: "truncated" }],
  });
  await tamper("INSERT INTO audit_events SELECT * FROM audit_taken");
  await tamper("INSERT INTO audit_seals SELECT * FROM seals_taken");
  await tamper("DROP TABLE audit_taken");
  await tamper("DROP TABLE seals_taken");
  expect((await verify(bucket)).verdict).toBe("ok");
});

it("finds a chain that was written anew, without the bucket too", async () => {
  const bucket = memoryBucket();
  await anchorAudit(env.DB, bucket, settings);
  const [seq, { head }] = [seqOf(2), await verify(bucket)];
  await tamper(`CREATE TABLE seals_taken AS SELECT * FROM audit_seals WHERE audit_seq >= ${seq}`);
  const { actor } = (await first<{ actor: string }>(
    env.DB,
    sql`SELECT actor FROM audit_events WHERE audit_seq = ${seq}`,
  ))!;
  // The forger changes a row and computes the links again. Without a key of the ring they sign with
  // one of their own, under its name and under another, or not at all.
  const forgers = [{ a2: randomSeed() }, { mallory: randomSeed() }, null];
  await tamper(`UPDATE audit_events SET actor = 'operator:mallory' WHERE audit_seq = ${seq}`);
  for (const forger of forgers) {
    await tamper(`DELETE FROM audit_seals WHERE audit_seq >= ${seq}`);
    await sealAudit(env.DB, { ...settings, AUDIT_KEYS: forger ?? { a2: randomSeed() } });
    if (forger === null)
      await tamper(
        `UPDATE audit_seals SET key_id = NULL, signature = NULL WHERE audit_seq >= ${seq}`,
      );
    for (const kept of [memoryBucket(), bucket]) {
      const report = await verify(kept);
      expect(report).toMatchObject({ ok: false, verdict: "forged" });
      expect(report.discrepancies.map(({ kind }) => kind)).toContain("unsigned");
      if (kept === bucket)
        expect(report.discrepancies).toContainEqual({ auditSeq: head.seq, kind: "anchor" });
    }
  }
  await tamper(`UPDATE audit_events SET actor = '${actor}' WHERE audit_seq = ${seq}`);
  await tamper(`DELETE FROM audit_seals WHERE audit_seq >= ${seq}`);
  await tamper("INSERT INTO audit_seals SELECT * FROM seals_taken");
  await tamper("DROP TABLE seals_taken");
  expect((await verify(bucket)).verdict).toBe("ok");
});

it("says that the anchor is missing, and verifies the rest", async () => {
  await newKey(await newUser(), ["read"]);
  await anchorAudit(env.DB, AWAY, settings);
  const missing = { verdict: "anchor_missing", anchor: null, discrepancies: [] };
  expect(await verify(AWAY)).toMatchObject(missing);
  expect(await verify(memoryBucket())).toMatchObject(missing);
  const bucket = memoryBucket();
  await anchorAudit(env.DB, bucket, settings);
  const { verdict, anchor, head } = await verify(bucket);
  expect({ verdict, seq: anchor?.seq }).toEqual({ verdict: "ok", seq: head.seq });
  await newKey(await newUser(), ["read"]);
  await sealAudit(env.DB, settings);
  await tamper("UPDATE audit_seals SET sealed_at = sealed_at + 3700000");
  expect((await verify(bucket)).verdict).toBe("anchor_missing");
  await tamper("UPDATE audit_seals SET sealed_at = sealed_at - 3700000");
});

it("alerts if the bucket has been away for a quarter of an hour, until it is back", async () => {
  const open = async () =>
    (await first<{ n: number }>(
      env.DB,
      sql`SELECT count(*) AS n FROM alerts WHERE kind = 'anchor_late' AND resolved_at IS NULL`,
    ))!.n;
  const bucket = memoryBucket();
  await anchorAudit(env.DB, bucket, settings);
  await newKey(await newUser(), ["read"]);
  await anchorAudit(env.DB, AWAY, settings);
  expect(await open()).toBe(0);
  await tamper("UPDATE audit_seals SET sealed_at = sealed_at - 901000");
  await anchorAudit(env.DB, AWAY, settings);
  expect(await open()).toBe(1);
  const end = () => anchorAudit(env.DB, bucket, settings);
  await answerAlert("anchor_late", "audit", { bindings: { AUDIT: bucket }, end });
});

it("keeps its heads in R2, and ignores one that nobody signed", async () => {
  await anchorAudit(env.DB, env.AUDIT, settings);
  const { head } = await verify(env.AUDIT);
  const listed = await env.AUDIT.list({ prefix: "audit/", limit: 1 });
  const stored = await env.AUDIT.get(listed.objects[0]!.key);
  expect(await stored!.json()).toMatchObject({ seq: String(head.seq), hash: head.hash });
  const bucket = memoryBucket();
  const hash = `0x${"ab".repeat(32)}`;
  const customMetadata = { seq: "1", hash, keyId: "a2", signature: "AA", at: "1" };
  const key = `audit/999999999998-${"ab".repeat(8)}`;
  await bucket.put(key, "", { customMetadata });
  const { discrepancies, ignored_heads } = await verify(bucket);
  expect(discrepancies).toEqual([]);
  expect(ignored_heads).toEqual({ count: 1, keys: [key] });
});

it("serves the public keys of the whole ring", async () => {
  const response = await send("/.well-known/jwks.json");
  const { keys } = await response.json<{ keys: { kid: string; x: string }[] }>();
  expect(keys.map(({ kid }) => kid)).toEqual(["a2", "a1"]);
  const [key] = keys;
  const jwk = { kty: "OKP", crv: "Ed25519", x: key!.x };
  const verifying = await crypto.subtle.importKey("jwk", jwk, "Ed25519", false, ["verify"]);
  const { seq, hash, signature } = await signHead(settings, { seq: 1, hash: "0xab" });
  const text = new TextEncoder().encode(`rfq-custody-audit-v1\ntest\n${seq}\n${hash}`);
  const bytes = Buffer.from(signature, "base64url");
  expect(await crypto.subtle.verify("Ed25519", verifying, bytes, text)).toBe(true);
});

it("concurrent sealers produce one chain", async () => {
  const user = await newUser();
  await Promise.all([
    newKey(user, ["read"]),
    newKey(user, ["read"]),
    sealAudit(env.DB, settings),
    sealAudit(env.DB, settings),
    sealAudit(env.DB, settings),
  ]);
  await sealAudit(env.DB, settings);
  expect(await verify()).toMatchObject({ ok: true, unsealed: 0 });
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
  ["a replace of a seal", "INSERT OR REPLACE INTO audit_seals SELECT * FROM audit_seals LIMIT 1"],
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
  const [list, place] = cursor.split("-");
  expect(list).toBe("listAuditEvents");
  const position: unknown = JSON.parse(Buffer.from(place, "base64url").toString());
  expect(position).toEqual([items[0].audit_event_id]);
  const next = `${path}&last_cursor=${cursor}`;
  expect((await apiOf(user).get(next)).json["items"]).toHaveLength(1);
  expect((await apiOf(await newUser()).get(next)).json).toEqual({ items: [], next_cursor: null });
});
