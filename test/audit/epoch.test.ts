/**
 * The audit log after an older database was put back, and what a thief can make of that. A database
 * of its own, because every test takes it back.
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { anchorAudit, type AuditBucket } from "../../src/audit/anchor.ts";
import { openEpoch, readEpochs } from "../../src/audit/epoch.ts";
import { signHead } from "../../src/audit/signing-keys.ts";
import { sealAudit } from "../../src/audit/seal.ts";
import { verifyAudit } from "../../src/audit/verify.ts";
import { isAuditBehind, restoreAudit } from "../../src/operator/restore.ts";
import { config } from "../../src/platform/config.ts";
import { all, first, raw, sql } from "../../src/platform/sql.ts";
import { AWAY, memoryBucket } from "../support/audit-bucket.ts";
import { edit } from "../support/ledger.ts";

const db = env.AUDIT_DB;
const settings = config(env);
const DAY_MS = 86_400_000;
let bucket = memoryBucket();

beforeAll(() => applyD1Migrations(db, env.TEST_MIGRATIONS));
beforeEach(async () => {
  await forget(0);
  bucket = memoryBucket();
});

const verify = (knownRestores?: number) => verifyAudit(db, settings, { bucket, knownRestores });
const open = (insists = false) =>
  openEpoch(db, bucket, settings, { actor: "operator:ann", insists });

/** Deletes what follows an event, as Time Travel does, or a thief. */
async function forget(after: number): Promise<void> {
  for (const log of ["audit_seals", "audit_events"])
    await edit(db, log, [sql`DELETE FROM ${raw(log)} WHERE audit_seq > ${after}`]);
}

/** Writes so many events, a head in R2 after each. Returns the number of the last. */
async function happen(events: number, to: AuditBucket = bucket): Promise<number> {
  for (let count = 0; count < events; count++) {
    await all(
      db,
      sql`INSERT INTO audit_events (audit_event_id, kind, actor, at)
        VALUES (randomblob(16), 'login', 'password', ${Date.now()})`,
    );
    await anchorAudit(db, to, settings);
  }
  const row = await first<{ last: number }>(
    db,
    sql`SELECT max(audit_seq) AS last FROM audit_events`,
  );
  return row?.last ?? 0;
}

describe("after Time Travel", () => {
  it("names the range that was lost, and continues above it", async () => {
    await happen(9);
    await forget(4);
    await happen(2);
    expect(await verify()).toMatchObject({ verdict: "forged", ok: false });
    const opened = await open();
    expect(opened).toEqual({
      epoch: 1,
      seq: 1_000_009,
      follows: 6,
      keptUntil: 4,
      lostUntil: 9,
    });
    expect(await happen(2)).toBe(1_000_011);
    const report = await verify(1);
    expect(report).toMatchObject({
      ok: true,
      verdict: "lost_in_restore",
      verified: 9,
      unsealed: 0,
      discrepancies: [],
      anchor: { seq: 1_000_011 },
      restores: [
        {
          epoch: 1,
          audit_seq: 1_000_009,
          in_log: true,
          actor: "operator:ann",
          kept_until: 4,
          lost: { from: 5, to: 9 },
        },
      ],
    });
    expect(report.restores[0]?.kept_until_at).toMatch(/^20/);
    expect(await open()).toBeUndefined();
  });

  it("fails unless the operator knows of every restore", async () => {
    await happen(5);
    await forget(2);
    await open();
    expect(await verify()).toMatchObject({ ok: false, verdict: "lost_in_restore" });
    expect(await verify(0)).toMatchObject({ ok: false, verdict: "unknown_restore" });
    expect(await verify(1)).toMatchObject({ ok: true, verdict: "lost_in_restore" });
    expect(await verify(2)).toMatchObject({ ok: true, verdict: "lost_in_restore" });
  });

  it("counts a restore whose event a later one has lost", async () => {
    await happen(6);
    await forget(4);
    await open();
    await happen(3);
    await forget(2);
    expect(await verify(1)).toMatchObject({ verdict: "forged" });
    expect(await open()).toMatchObject({ epoch: 2, keptUntil: 2, lostUntil: 1_000_009 });
    const report = await verify(1);
    expect(report).toMatchObject({ verdict: "unknown_restore", discrepancies: [] });
    expect(report.restores.map(({ epoch, in_log }) => [epoch, in_log])).toEqual([
      [1, false],
      [2, true],
    ]);
    expect(await verify(2)).toMatchObject({ ok: true });
  });

  it("verifies events of the epoch that are not sealed yet", async () => {
    await happen(4);
    await forget(2);
    await open();
    await edit(db, "audit_seals", [sql`DELETE FROM audit_seals WHERE audit_seq > 1000000`]);
    const { discrepancies, unsealed } = await verify(1);
    expect(discrepancies).toMatchObject([{ kind: "truncated" }]);
    expect(unsealed).toBe(1);
  });

  it("opens an epoch without a lost head only if the operator insists", async () => {
    await happen(3);
    expect(await open()).toBeUndefined();
    expect(await open(true)).toMatchObject({ seq: 1_000_003, keptUntil: 3, lostUntil: 3 });
    expect(await verify(1)).toMatchObject({ ok: true, restores: [{ lost: null }] });
  });

  it("opens none while R2 is away, and writes a record that is missing", async () => {
    await happen(3);
    await forget(1);
    const opening = openEpoch(db, AWAY, settings, { actor: "operator:ann", insists: true });
    await expect(opening).rejects.toThrow("R2 is away");
    expect(await readEpochs(db, settings)).toEqual([]);
    await open();
    const recorded = bucket.keys().filter((key) => key.startsWith("audit/epoch/"));
    expect(recorded).toEqual([expect.stringMatching(/^audit\/epoch\/000001-1000003-[\w-]{16}$/)]);
    const kept = bucket;
    bucket = memoryBucket();
    await open();
    expect(bucket.keys()).toEqual(recorded);
    bucket = kept;
  });

  it("survives events that are written at the same time", async () => {
    await happen(6);
    await forget(3);
    const [opened] = await Promise.all([open(), happen(4, memoryBucket())]);
    expect(opened).toMatchObject({ keptUntil: 3, lostUntil: 6 });
    await anchorAudit(db, bucket, settings);
    expect(await verify(1)).toMatchObject({ ok: true, discrepancies: [] });
  });
});

it("`restore` opens an epoch, and says so if it cannot", async () => {
  const contextOf = (AUDIT: AuditBucket) => ({
    env: { ...env, DB: db, AUDIT: AUDIT as R2Bucket },
    settings,
    operator: "ann",
    words: [],
    options: {},
  });
  await happen(5);
  expect(await isAuditBehind(contextOf(bucket))).toBe(false);
  expect(await restoreAudit(contextOf(bucket), false)).toBeUndefined();
  await forget(3);
  expect(await isAuditBehind(contextOf(bucket))).toBe(true);
  const failed = { ok: false, note: expect.stringContaining("R2 is away. Run restore again.") };
  expect(await restoreAudit(contextOf(AWAY), true)).toEqual(failed);
  expect(await restoreAudit(contextOf(bucket), false)).toEqual({
    ok: true,
    epoch: 1,
    audit_seq: 1_000_005,
    kept_until: 3,
    lost_until: 5,
  });
  expect(await isAuditBehind(contextOf(bucket))).toBe(false);
});

describe("a thief who can write SQL", () => {
  it("is found after deleting events, before and after an epoch", async () => {
    await happen(8);
    await forget(6);
    await open();
    const end = await happen(3);
    await forget(end - 2);
    expect(await verify(1)).toMatchObject({ verdict: "forged" });
    await happen(2);
    const found = await verify(1);
    expect(found.verdict).toBe("forged");
    expect(found.discrepancies.map(({ kind }) => kind)).toEqual(["anchor", "anchor"]);
  });

  it("is found after deleting what an epoch says was kept", async () => {
    await happen(8);
    await forget(6);
    await open();
    await happen(1);
    await edit(db, "audit_events", [sql`DELETE FROM audit_events WHERE audit_seq = 3`]);
    expect(await verify(1)).toMatchObject({
      verdict: "forged",
      discrepancies: [{ auditSeq: 3, kind: "missing" }],
    });
  });

  it("cannot open an epoch", async () => {
    await happen(8);
    await forget(4);
    const details = { epoch: 1, seq: 1_000_008, follows: 4, keptUntil: 4, lostUntil: 8 };
    await all(
      db,
      sql`INSERT INTO audit_events (audit_seq, audit_event_id, kind, actor, subject_id, details, mac,
          at)
        VALUES (${details.seq}, randomblob(16), 'audit_epoch_opened', 'operator:ann', 'audit',
          ${JSON.stringify(details)}, 'a2.AAAA', ${Date.now()})`,
    );
    await sealAudit(db, settings);
    const { verdict, discrepancies } = await verify(1);
    expect(verdict).toBe("forged");
    expect(discrepancies).toContainEqual({ auditSeq: 5, upTo: 1_000_007, kind: "missing" });
  });

  it("cannot move an epoch, nor hide events in its gap", async () => {
    await happen(8);
    await forget(4);
    await open();
    await edit(db, "audit_seals", [sql`DELETE FROM audit_seals WHERE audit_seq > 3`]);
    await edit(db, "audit_events", [
      sql`DELETE FROM audit_events WHERE audit_seq = 4`,
      sql`UPDATE audit_events SET audit_seq = audit_seq + 5 WHERE audit_seq > 4`,
    ]);
    await anchorAudit(db, bucket, settings);
    expect(await verify(1)).toMatchObject({ verdict: "forged" });
    await forget(0);
    bucket = memoryBucket();
    await happen(8);
    await forget(4);
    await open();
    await edit(db, "audit_events", [
      sql`INSERT INTO audit_events (audit_seq, audit_event_id, kind, actor, at)
        VALUES (500, randomblob(16), 'login', 'password', 1)`,
    ]);
    expect(await verify(1)).toMatchObject({
      verdict: "forged",
      discrepancies: [{ auditSeq: 500, kind: "forged" }],
    });
  });

  it("cannot have an epoch explain heads that Time Travel does not reach", async () => {
    bucket.uploadedAt = Date.now() - 40 * DAY_MS;
    await happen(6);
    bucket.uploadedAt = Date.now();
    await happen(2);
    await forget(3);
    expect(await open()).toMatchObject({ keptUntil: 6, lostUntil: 8 });
    const { verdict, discrepancies } = await verify(1);
    expect(verdict).toBe("forged");
    expect(new Set(discrepancies.map(({ auditSeq }) => auditSeq))).toEqual(new Set([4, 5, 6]));
  });
});

describe("a thief who can write to the bucket", () => {
  /** Puts what the bucket has under one key under others, too. */
  async function copy(from: string, keys: readonly string[]): Promise<void> {
    const { objects } = await bucket.list({ prefix: from });
    const customMetadata = objects[0]?.customMetadata ?? {};
    for (const key of keys) await bucket.put(key, "", { customMetadata });
  }
  const keyOf = (start: string) => bucket.keys().find((key) => key.startsWith(start)) ?? "";

  it("cannot hide all heads by an object before them", async () => {
    await happen(6);
    await bucket.put("audit/!", "", {});
    expect(await verify()).toMatchObject({ ok: true, ignored_heads: { keys: ["audit/!"] } });
    await forget(4);
    const { discrepancies } = await verify();
    expect(discrepancies).toEqual([{ auditSeq: 5, kind: "truncated" }]);
    expect(await open()).toMatchObject({ keptUntil: 4, lostUntil: 6 });
  });

  it("cannot make an old head young by a copy of it", async () => {
    bucket.uploadedAt = Date.now() - 40 * DAY_MS;
    await happen(6);
    bucket.uploadedAt = Date.now();
    await happen(2);
    await forget(3);
    for (const seq of [4, 5, 6]) {
      const start = `audit/${String(999_999_999_999 - seq)}`;
      await copy(keyOf(start), [start, `${start}-${"0".repeat(16)}`, `${start}-${"f".repeat(16)}`]);
    }
    expect(await open()).toMatchObject({ keptUntil: 6, lostUntil: 8 });
    expect(await verify(1)).toMatchObject({ verdict: "forged" });
  });

  it("cannot keep the record of an epoch out of the bucket", async () => {
    await happen(4);
    await bucket.put("audit/epoch/000001-1000004", "", {});
    await forget(2);
    await open();
    await forget(1);
    expect(await open()).toMatchObject({ epoch: 2, lostUntil: 1_000_004 });
  });

  it("makes no further restore by copies of a record", async () => {
    await happen(4);
    await forget(3);
    await open();
    await forget(2);
    await open();
    const copies = Array.from({ length: 150 }, (_, n) => `audit/epoch/000001-1000004-copy${n}`);
    await copy(keyOf("audit/epoch/000001"), copies);
    const { ok, restores } = await verify(2);
    expect(ok).toBe(true);
    expect(restores).toHaveLength(2);
  });
});

describe("heads that nobody signed", () => {
  const put = (key: string, head: Record<string, string>) =>
    bucket.put(key, "", { customMetadata: head });
  const unsigned = { hash: `0x${"ab".repeat(32)}`, keyId: "a2", signature: "AA", at: "1" };
  const keyOfHead = (countdown: string) => `audit/${countdown}-${"ab".repeat(8)}`;

  it("delay no anchor, raise no number, and are reported", async () => {
    await happen(4);
    await put(keyOfHead("999899999999"), { ...unsigned, seq: "100000000" });
    await put("audit/x", unsigned);
    await happen(3);
    const report = await verify();
    expect(report).toMatchObject({ ok: true, verdict: "ok", anchor: { seq: 7 } });
    expect(report.ignored_heads).toEqual({ count: 1, keys: [keyOfHead("999899999999")] });
    await forget(5);
    expect(await open()).toMatchObject({ seq: 1_000_007, keptUntil: 5, lostUntil: 7 });
    expect(await verify(1)).toMatchObject({ ok: true });
  });

  it("hide no truncation, although there are many", async () => {
    await happen(6);
    for (let seq = 100; seq < 1_300; seq++)
      await put(keyOfHead(`${999_999_999_999 - seq}`), { ...unsigned, seq: String(seq) });
    await forget(4);
    const { discrepancies, ignored_heads } = await verify();
    expect(discrepancies).toEqual([{ auditSeq: 5, kind: "truncated" }]);
    expect(ignored_heads.count).toBe(1_200);
    expect(ignored_heads.keys).toHaveLength(20);
  });

  it("are also genuine ones under another number", async () => {
    await happen(4);
    const { head } = await verify();
    const { keyId, signature } = await signHead(settings, head);
    await put(`audit/000000000000-${head.hash.slice(2, 18)}`, {
      seq: String(head.seq),
      hash: head.hash,
      keyId,
      signature,
    });
    await happen(2);
    expect(await verify()).toMatchObject({
      ok: true,
      anchor: { seq: 6 },
      ignored_heads: { count: 1 },
    });
  });

  it("do not keep a genuine head out of the bucket", async () => {
    await happen(2);
    await put(keyOfHead("999999999996"), { ...unsigned, seq: "3" });
    await happen(1);
    expect(await verify()).toMatchObject({ ok: true, anchor: { seq: 3 } });
  });
});

describe("a long log", () => {
  /** Continues until the end. */
  async function inParts(): Promise<Awaited<ReturnType<typeof verify>>[]> {
    const parts = [];
    for (let from: string | undefined; ;) {
      const part = await verifyAudit(db, settings, { bucket, from, maxRows: 5_000 });
      parts.push(part);
      if (part.next === null) return parts;
      from = part.next;
    }
  }

  it("is verified by bounded calls that continue each other", { timeout: 60_000 }, async () => {
    for (let count = 0; count < 4; count++)
      await all(
        db,
        sql`INSERT INTO audit_events (audit_event_id, kind, actor, at)
          SELECT randomblob(16), 'login', 'password', ${Date.now()}
          FROM json_each(${JSON.stringify(Array.from({ length: 3_000 }))})`,
      );
    await sealAudit(db, settings);
    await anchorAudit(db, bucket, settings);
    const parts = await inParts();
    expect(parts.map(({ verified }) => verified)).toEqual([5_000, 5_000, 2_000]);
    expect(parts.every(({ ok }) => ok)).toBe(true);
    expect(parts.at(-1)?.head.seq).toBe(12_000);
    await edit(db, "audit_events", [
      sql`UPDATE audit_events SET actor = 'mallory' WHERE audit_seq IN (4999, 5001)`,
    ]);
    const found = (await inParts()).flatMap(({ discrepancies }) => discrepancies);
    expect(found.map(({ auditSeq }) => auditSeq)).toEqual([4_999, 5_001]);
  });

  it("is not continued from a link that was changed meanwhile", async () => {
    await happen(4);
    const from = JSON.stringify({ seq: 2, hash: `0x${"11".repeat(32)}`, signedSeq: 2 });
    const { discrepancies } = await verifyAudit(db, settings, { bucket, from });
    expect(discrepancies).toContainEqual({ auditSeq: 2, kind: "changed" });
  });
});
