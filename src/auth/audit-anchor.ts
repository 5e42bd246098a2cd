/**
 * Heads of the audit log outside the database, in an R2 bucket with a retention lock: who can write
 * SQL cannot change them. A bucket that is away stops nothing. Its heads follow later.
 */
import { clearAlert, raiseAlert } from "../platform/alert.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, first, sql } from "../platform/sql.ts";
import { type Anchors, type Head, NO_ANCHORS, sealAudit } from "./audit-seal.ts";
import { type SignedHead, signHead } from "./audit-keys.ts";

export type AuditBucket = Pick<R2Bucket, "put" | "list">;
/** An anchor as R2 lists it. */
type Anchor = SignedHead & { readonly at: number };

const PREFIX = "audit/";
/** Keys count down, so that R2, which lists them in order, lists the newest first. */
const LAST_SEQ = 999_999_999_999;
const LATE_MS = 15 * 60_000;

/** Seals new events and puts the head into the bucket. Alerts if no head got there for long. */
export async function anchorAudit(
  db: D1Database,
  bucket: AuditBucket,
  settings: Config,
): Promise<void> {
  const head = await sealAudit(db, settings);
  try {
    const anchored = (await newestAnchor(bucket))?.seq ?? 0;
    if (anchored < head.seq) await putAnchor(bucket, settings, head);
  } catch (error) {
    log("warn", "audit_anchor_failed", errorFields(error));
    return alertIfLate(db);
  }
  await all(
    db,
    sql`INSERT INTO audit_anchor (one, audit_seq) VALUES (1, ${head.seq})
      ON CONFLICT (one) DO UPDATE SET audit_seq = excluded.audit_seq
      WHERE excluded.audit_seq > audit_anchor.audit_seq`,
  );
  await clearAlert(db, "anchor_late", "audit");
}

async function putAnchor(bucket: AuditBucket, settings: Config, head: Head): Promise<void> {
  const { seq, hash, keyId, signature } = await signHead(settings, head);
  const customMetadata = { seq: String(seq), hash, keyId, signature, at: String(Date.now()) };
  // The list carries the metadata. The body is for people.
  await bucket.put(keyOf(seq), `${JSON.stringify(customMetadata)}\n`, {
    onlyIf: { etagDoesNotMatch: "*" },
    httpMetadata: { contentType: "application/json" },
    customMetadata,
  });
}

/** Late: an event was sealed long ago, and no head since is known to be in the bucket. */
async function alertIfLate(db: D1Database): Promise<void> {
  const late = await first<{ late: number }>(
    db,
    sql`SELECT EXISTS (SELECT 1 FROM audit_seals
      WHERE audit_seq = coalesce((SELECT audit_seq FROM audit_anchor), 0) + 1
        AND sealed_at < ${NOW} - ${LATE_MS}) AS late`,
  );
  if (late?.late === 1)
    await raiseAlert(db, "anchor_late", "audit", "R2 has had no new head of the audit log");
}

/** The newest head in the bucket. Its signature is not verified yet. */
async function newestAnchor(bucket: AuditBucket): Promise<Anchor | undefined> {
  return (await listAnchors(bucket, { limit: 1 }))[0];
}

/** What the verification reads of the bucket. None of it if the bucket cannot be read. */
export async function readAnchors(bucket: AuditBucket): Promise<Anchors> {
  try {
    const newest = (await newestAnchor(bucket)) ?? null;
    return { newest, between: (from, to) => anchorsBetween(bucket, from, to) };
  } catch (error) {
    log("warn", "audit_anchor_failed", errorFields(error));
    return NO_ANCHORS;
  }
}

/** The heads of these events, both inclusive, newest first. */
async function anchorsBetween(bucket: AuditBucket, from: number, to: number): Promise<Anchor[]> {
  const found: Anchor[] = [];
  for (let below = to + 1; below > from;) {
    const page = await listAnchors(bucket, { startAfter: keyOf(below) });
    const fitting = page.filter((anchor) => anchor.seq >= from);
    found.push(...fitting);
    const last = page.at(-1);
    if (last === undefined || fitting.length < page.length) break;
    below = last.seq;
  }
  return found;
}

async function listAnchors(bucket: AuditBucket, options: R2ListOptions): Promise<Anchor[]> {
  const listed = await bucket.list({
    prefix: PREFIX,
    include: ["customMetadata"],
    ...options,
  } as R2ListOptions);
  return listed.objects.map(({ customMetadata = {} }) => ({
    seq: Number(customMetadata["seq"]),
    hash: String(customMetadata["hash"]),
    keyId: String(customMetadata["keyId"]),
    signature: String(customMetadata["signature"]),
    at: Number(customMetadata["at"]),
  }));
}

function keyOf(seq: number): string {
  return PREFIX + String(LAST_SEQ - seq).padStart(12, "0");
}
