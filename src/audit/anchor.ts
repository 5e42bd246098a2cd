/**
 * Heads of the audit log outside the database, in an R2 bucket with a retention lock: who can write
 * SQL cannot change them. A bucket that is away stops nothing. Its heads follow later.
 *
 * Who can write to the bucket can put objects there, but cannot sign a head. So a head counts only
 * if a key of AUDIT_KEYS signed it and it stands under its own number. Others are reported.
 */
import { clearAlert, raiseAlert } from "../platform/alert.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { type OnceBucket, putOnce } from "../platform/put-once.ts";
import { all, expr, holds, sql } from "../platform/sql.ts";
import { type Head, sealAudit } from "./seal.ts";
import { headVerifies, type SignedHead, signHead } from "./signing-keys.ts";

export type AuditBucket = OnceBucket & Pick<R2Bucket, "list">;
/** A head as R2 lists it. `at` is when R2 received it. */
export type Anchor = SignedHead & { readonly at: number; readonly key: string };

const PREFIX = "audit/";
/** Keys count down, so that R2, which lists them in order, lists the newest first. */
const LAST_SEQ = 999_999_999_999;
/** `audit/<countdown>-<start of the hash>`: after a restore a number can have a second head. */
const KEY = /^audit\/(\d{12})-([0-9a-f]{16})$/;
/** Sorts after all heads, and before the records of epochs. */
const END = `${PREFIX}:`;
const LATE_MS = 15 * 60_000;
/** Objects that R2 lists at once. */
export const LISTED = 1_000;
/** Pages that one reading lists. A month has 45 full pages of heads, so others put the rest. */
const MAX_PAGES = 400;

/** Seals new events and puts the head into the bucket. Alerts if no head got there for long. */
export async function anchorAudit(
  db: D1Database,
  bucket: AuditBucket,
  settings: Config,
): Promise<void> {
  const head = await sealAudit(db, settings);
  try {
    if (head.seq > 0) await putAnchor(bucket, settings, head);
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

/** Asks for this very head, because another one in the bucket says nothing about it. */
async function putAnchor(bucket: AuditBucket, settings: Config, head: Head): Promise<void> {
  const key = `${keyOf(head.seq)}-${head.hash.slice(2, 18)}`;
  const { seq, hash, keyId, signature } = await signHead(settings, head);
  const metadata = { seq: String(seq), hash, keyId, signature, at: String(Date.now()) };
  await putListed(bucket, key, { json: JSON.stringify(metadata), metadata });
}

/** Puts an object unless the key is listed. Lists carry its metadata. The JSON is for people. */
export async function putListed(
  bucket: AuditBucket,
  key: string,
  { json, metadata }: { json: string; metadata: Record<string, string> },
): Promise<void> {
  const { objects } = await bucket.list({ prefix: key, limit: 1 });
  if (objects.length > 0) return;
  await putOnce(bucket, key, `${json}\n`, {
    httpMetadata: { contentType: "application/json" },
    customMetadata: metadata,
  });
}

/** Late: an event was sealed long ago, and no head since is known to be in the bucket. */
async function alertIfLate(db: D1Database): Promise<void> {
  const late = expr`(SELECT sealed_at FROM audit_seals
    WHERE audit_seq > coalesce((SELECT audit_seq FROM audit_anchor), 0)
    ORDER BY audit_seq LIMIT 1) < ${NOW} - ${LATE_MS}`;
  if (await holds(db, late))
    await raiseAlert(db, "anchor_late", "audit", "R2 has had no new head of the audit log");
}

/** Reads the heads in the bucket. Remembers the keys of objects that are no signed heads. */
export class AnchorReader {
  readonly #bucket: AuditBucket;
  readonly #settings: Config;
  readonly #ignored = new Set<string>();

  constructor(bucket: AuditBucket, settings: Config) {
    this.#bucket = bucket;
    this.#settings = settings;
  }

  /** Keys of objects that count for nothing, as far as they were read. */
  get ignored(): readonly string[] {
    return [...this.#ignored];
  }

  /** The newest signed head. Undefined: there is none. Throws if the bucket cannot be read. */
  async newest(): Promise<Anchor | undefined> {
    for await (const page of this.#pages(PREFIX, 1))
      for (const anchor of page) if (await this.isSigned(anchor)) return anchor;
    return undefined;
  }

  /** All heads, newest first, as many as R2 lists at once. Signatures are not verified. */
  every(): AsyncGenerator<readonly Anchor[]> {
    return this.#pages(PREFIX, LISTED);
  }

  /** Heads from one event to another, both inclusive, newest first. Signatures are not verified. */
  async *between(from: number, to: number): AsyncGenerator<Anchor> {
    // "~" sorts after every key of the number above.
    for await (const page of this.#pages(`${keyOf(to + 1)}~`, LISTED))
      for (const anchor of page) {
        if (anchor.seq < from) return;
        yield anchor;
      }
  }

  async isSigned(anchor: Anchor): Promise<boolean> {
    const signed = await headVerifies(this.#settings, anchor);
    if (!signed) this.#ignored.add(anchor.key);
    return signed;
  }

  async *#pages(startAfter: string, limit: number): AsyncGenerator<readonly Anchor[]> {
    for await (const objects of objectsIn(this.#bucket, { prefix: PREFIX, startAfter, limit })) {
      const heads = objects.filter(({ key }) => key <= END);
      yield heads.flatMap((object) => {
        const anchor = readAnchor(object);
        if (anchor === undefined) this.#ignored.add(object.key);
        return anchor ?? [];
      });
      if (heads.length < objects.length) return;
    }
  }
}

/** The objects with their metadata, in the order of their keys. `limit` is that of the first page. */
export async function* objectsIn(
  bucket: AuditBucket,
  { prefix, ...begin }: { prefix: string; startAfter: string; limit: number },
): AsyncGenerator<readonly R2Object[]> {
  let { startAfter, limit } = begin;
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = { prefix, startAfter, limit };
    const { objects } = await bucket.list({ ...page, include: ["customMetadata"] });
    const last: R2Object | undefined = objects.at(-1);
    if (last === undefined) return;
    yield objects;
    startAfter = last.key;
    limit = LISTED;
  }
  throw new Error(`the bucket has too many objects below ${prefix}`);
}

/** Undefined if the key is that of another head, so that it would be read in its place. */
function readAnchor({ key, customMetadata = {}, uploaded }: R2Object): Anchor | undefined {
  const [, number, start] = KEY.exec(key) ?? [];
  const { seq, hash, keyId, signature } = customMetadata;
  if (number === undefined || Number(seq) !== LAST_SEQ - Number(number)) return undefined;
  if (start !== hash?.slice(2, 18)) return undefined;
  return {
    key,
    seq: Number(seq),
    hash: String(hash),
    keyId: String(keyId),
    signature: String(signature),
    at: uploaded.getTime(),
  };
}

function keyOf(seq: number): string {
  return PREFIX + String(LAST_SEQ - seq).padStart(12, "0");
}
