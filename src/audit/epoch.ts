/**
 * Epochs of the audit log. A restore of the database loses events whose numbers are known outside
 * of it: R2 has signed heads of them. `restore` opens an epoch: an event whose number is above all
 * that is known, which says up to where the log agreed with R2. It has a MAC, so SQL cannot open
 * one.
 *
 * The bucket has a signed record of each epoch, so that a later restore cannot make it forgotten.
 */
import { commitOrThrow, newGroup, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { expr, holds, listed, scalar, sql, uuid } from "../platform/sql.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { type AuditActor, audited, genuineEvents } from "./audit.ts";
import {
  type Anchor,
  AnchorReader,
  anchorAudit,
  type AuditBucket,
  LISTED,
  objectsIn,
  putListed,
} from "./anchor.ts";
import { signText, textVerifies } from "./signing-keys.ts";
import { readAuditSeals, sealAudit } from "./seal.ts";
import type { Stored } from "./event-details.ts";
import { type EventContent, eventMac, type MacKeys } from "./event-mac.ts";

export type Epoch = Stored["audit_epoch_opened"];
export type OpenedEpoch = Epoch & { readonly at: number; readonly actor: string };

const KIND = "audit_epoch_opened";
/** The subject of these events, by which an index finds them. */
const SUBJECT = "audit";
const PREFIX = "audit/epoch/";
/** The numbers of an epoch begin so far above all that are known. The newest may be in no head. */
const JUMP = 1_000_000;
/** Time Travel reaches 30 days back. A head that is older cannot have been lost by it. */
const REACH_MS = 31 * 86_400_000;
/** Attempts to insert the event right after the last sealed one. */
const ATTEMPTS = 20;
/** Events that are read. Somebody else inserted the others, so the log is forged in any case. */
const MAX_EPOCHS = 10_000;

/** The epochs that the log has, in order. Events that this service did not write open none. */
export async function readEpochs(db: D1Database, keys: MacKeys): Promise<OpenedEpoch[]> {
  const events = await genuineEvents(db, keys, {
    kind: KIND,
    subjects: [SUBJECT],
    most: MAX_EPOCHS,
  });
  return events.flatMap(({ details, seq, at, actor }) => {
    const epoch = { ...readEpoch(details ?? ""), at, actor };
    return epoch.seq === seq ? [epoch] : [];
  });
}

/** Safe cast: only `openEpoch` writes details with a MAC, and signs records. */
function readEpoch(json: string): Epoch {
  return JSON.parse(json) as Epoch;
}

/** Whether a head of this number may contradict the log, because a restore has lost its event. */
export function isLost(epochs: readonly Epoch[], seq: number): boolean {
  return epochs.some(({ keptUntil, lostUntil }) => seq > keptUntil && seq <= lostUntil);
}

/** The epochs of which the bucket has a signed record, each once. Throws if it cannot be read. */
export async function recordedEpochs(bucket: AuditBucket, settings: Config): Promise<Epoch[]> {
  const found = new Map<string, Epoch>();
  const all = { prefix: PREFIX, startAfter: PREFIX, limit: LISTED };
  for await (const objects of objectsIn(bucket, all))
    for (const { customMetadata = {} } of objects) {
      const { epoch = "", keyId = "", signature = "" } = customMetadata;
      if (await textVerifies(settings, { keyId, signature }, recordText(settings, epoch)))
        found.set(epoch, readEpoch(epoch));
    }
  return [...found.values()];
}

/** Whether R2 has heads that the log lacks and no epoch explains. Throws if it cannot be read. */
export async function hasLostEvents(
  db: D1Database,
  bucket: AuditBucket,
  settings: Config,
): Promise<boolean> {
  const known = await readEpochs(db, settings);
  return (await findLost(db, new AnchorReader(bucket, settings), known)) !== undefined;
}

/**
 * Opens an epoch if R2 has heads that this database has lost, or if the operator insists. Returns
 * undefined if there is nothing to open. Throws if the bucket cannot be read, because the numbers
 * would not be above all that are known.
 */
export async function openEpoch(
  db: D1Database,
  bucket: AuditBucket,
  settings: Config,
  { actor, insists }: { actor: AuditActor; insists: boolean },
): Promise<Epoch | undefined> {
  const known = await readEpochs(db, settings);
  // An earlier call may have ended before it wrote the record.
  for (const epoch of known) await putRecord(bucket, settings, epoch);
  const reader = new AnchorReader(bucket, settings);
  const lost = await findLost(db, reader, known);
  if (lost === undefined && !insists) return undefined;
  const recorded = await recordedEpochs(bucket, settings);
  const newest = (await reader.newest())?.seq ?? 0;
  const number = Math.max(0, ...[...known, ...recorded].map(({ epoch }) => epoch)) + 1;
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const { seq: follows } = await sealAudit(db, settings);
    const epoch = {
      epoch: number,
      seq: Math.max(newest, follows, ...recorded.map(({ seq }) => seq)) + JUMP,
      follows,
      keptUntil: lost?.keptUntil ?? follows,
      lostUntil: lost?.lostUntil ?? follows,
    };
    if (!(await insertEpoch(db, settings, epoch, actor))) continue;
    await putRecord(bucket, settings, epoch);
    await anchorAudit(db, bucket, settings);
    return epoch;
  }
  throw new Error("could not open an epoch, because other audit events took each next number");
}

/** Signed heads that contradict the log and that no epoch explains. Undefined: there is none. */
async function findLost(
  db: D1Database,
  reader: AnchorReader,
  known: readonly Epoch[],
): Promise<Pick<Epoch, "keptUntil" | "lostUntil"> | undefined> {
  const since = await scalar<number>(db, expr`${NOW} - ${REACH_MS}`);
  // With the first time that R2 got each. A copy of an old head is not younger.
  const lost = new Map<string, { readonly seq: number; readonly at: number }>();
  const kept: number[] = [];
  let end = 0;
  scan: for await (const anchors of reader.every()) {
    const hashes = await hashesOf(db, anchors);
    for (const anchor of anchors) {
      const { seq, hash, at } = anchor;
      // Below a head that is out of reach are older ones alone.
      if (seq < end) break scan;
      const agrees = hashes.get(seq) === hash;
      if (agrees) kept.push(seq);
      else if (isLost(known, seq)) continue;
      if ((agrees && at >= since) || !(await reader.isSigned(anchor))) continue;
      if (at < since) end = seq;
      const id = `${seq} ${hash}`;
      if (!agrees) lost.set(id, { seq, at: Math.min(at, lost.get(id)?.at ?? at) });
    }
  }
  const heads = [...lost.values()];
  const [highest, ...others] = heads.filter(({ at }) => at >= since).map(({ seq }) => seq);
  if (highest === undefined) return undefined;
  const lowest = others.at(-1) ?? highest;
  // What agrees above a lost head was written after the restore.
  const below = [...kept, ...heads.filter(({ at }) => at < since).map(({ seq }) => seq)];
  const keptUntil = below.reduce((most, seq) => (seq < lowest ? Math.max(most, seq) : most), 0);
  return { keptUntil, lostUntil: highest };
}

async function hashesOf(
  db: D1Database,
  anchors: readonly Anchor[],
): Promise<ReadonlyMap<number, string>> {
  const numbers = listed(anchors.map(({ seq }) => seq));
  const seals = await readAuditSeals(db, sql`WHERE audit_seq IN (${numbers})`);
  return new Map(seals.map(({ seq, hash }) => [seq, hash]));
}

/** Returns false if another event was written since the last one was sealed. */
async function insertEpoch(
  db: D1Database,
  settings: Config,
  epoch: Epoch,
  actor: AuditActor,
): Promise<boolean> {
  const group = newGroup();
  const content: EventContent = {
    id: uuidv7(),
    kind: KIND,
    actor,
    userId: null,
    apiKeyId: null,
    ip: null,
    subjectId: SUBJECT,
    details: JSON.stringify(epoch),
  };
  await commitOrThrow(db, group, [
    sql`INSERT INTO audit_events (audit_seq, audit_event_id, kind, actor, subject_id, details, mac, at)
      SELECT ${epoch.seq}, ${uuid(content.id)}, ${KIND}, ${actor}, ${SUBJECT}, ${content.details},
        ${eventMac(settings, content)}, ${group.at}
      WHERE (SELECT coalesce(max(audit_seq), 0) FROM audit_events) = ${epoch.follows}`,
  ]);
  return holds(db, audited(content.id));
}

/** Nobody can take the key before, because it contains a part of the signature. */
async function putRecord(bucket: AuditBucket, settings: Config, epoch: Epoch): Promise<void> {
  const { epoch: number, seq, follows, keptUntil, lostUntil } = epoch;
  const json = JSON.stringify({ epoch: number, seq, follows, keptUntil, lostUntil });
  const signed = await signText(settings, recordText(settings, json));
  const start = signed.signature.slice(0, 16);
  const key = `${PREFIX}${String(number).padStart(6, "0")}-${seq}-${start}`;
  await putListed(bucket, key, { json, metadata: { epoch: json, ...signed } });
}

function recordText({ DEPLOYMENT }: Config, epoch: string): string {
  return ["rfq-custody-audit-epoch-v1", DEPLOYMENT, epoch].join("\n");
}
