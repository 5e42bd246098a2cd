/** Verifies the audit log and the heads that R2 keeps in bounded calls that continue each other. */
import type { Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { listed, sql } from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { type Anchor, AnchorReader, type AuditBucket } from "./anchor.ts";
import { type LoggedEvent, readAuditEvents } from "./audit.ts";
import { type Epoch, isLost, type OpenedEpoch, readEpochs, recordedEpochs } from "./epoch.ts";
import { headVerifies } from "./signing-keys.ts";
import {
  eventsAfter,
  AUDIT_GENESIS,
  type Head,
  linkOf,
  readAuditSeals,
  type AuditSeal,
} from "./seal.ts";

/** Rows that are read at once, because D1 answers an invocation 1 000 queries. */
const PAGE = 5_000;
/** How far the newest anchor may be behind the newest seal. */
const ANCHOR_LATE_MS = 3_600_000;
/** Keys of ignored objects that a report names. */
const MAX_IGNORED = 20;

export type AuditReport = {
  readonly ok: boolean;
  /**
   * `forged`: a row was changed, removed, inserted by somebody else or signed by nobody.
   * `unknown_restore`: more restores have opened an epoch than the operator knows.
   * `anchor_missing`: the bucket with the heads cannot be read, or its newest head is more than an
   * hour behind. `lost_in_restore`: only events of the ranges in `restores` are missing.
   */
  readonly verdict: "ok" | "lost_in_restore" | "anchor_missing" | "unknown_restore" | "forged";
  /** Number of rows whose link verified in this call. */
  readonly verified: number;
  /** Number of rows that are not sealed yet. */
  readonly unsealed: number;
  readonly head: Head;
  /** The newest head in the bucket, and when it was put there. Null: none, or it cannot be read. */
  readonly anchor: { readonly seq: number; readonly at: string } | null;
  readonly discrepancies: readonly Discrepancy[];
  readonly restores: readonly Restore[];
  /** Objects in the bucket that are no signed heads, and the keys of some. They do not count. */
  readonly ignored_heads: { readonly count: number; readonly keys: readonly string[] };
  /** Where the next call continues. Null: the log has been verified to its end. */
  readonly next: string | null;
};
type Discrepancy = {
  readonly auditSeq: number;
  /** The last of several missing numbers. */
  readonly upTo?: number;
  /**
   * `forged`: the event has a number that an epoch skips. `unsigned`: no key of AUDIT_KEYS signed
   * this head. `anchor`: R2 has another hash.
   */
  readonly kind: "changed" | "forged" | "missing" | "truncated" | "unsigned" | "anchor";
};
/** A restore of the database. `in_log` is false if a later restore has lost its event. */
type Restore = {
  readonly epoch: number;
  readonly audit_seq: number;
  readonly in_log: boolean;
  readonly at: string | null;
  readonly actor: string | null;
  /** The last event that the restore kept, and its time. Events after it may be lost. */
  readonly kept_until: number;
  readonly kept_until_at: string | null;
  /** The numbers of lost events, both inclusive. Null: R2 knew none. */
  readonly lost: { readonly from: number; readonly to: number } | null;
};

export type VerifyOptions = {
  /** R2, or undefined if the heads are not compared. */
  readonly bucket?: AuditBucket;
  /** `next` of the call before. */
  readonly from?: string | undefined;
  /** Rows after which the call ends. Default: it verifies all. */
  readonly maxRows?: number;
  /** How many restores the operator knows of. */
  readonly knownRestores?: number | undefined;
};

/** Where a call begins: the last link of the call before, and the last that was signed. */
type Position = Head & { readonly signedSeq: number };

/** Recomputes the chain and compares it with the signed heads and with those in R2. */
export async function verifyAudit(
  db: D1Database,
  settings: Config,
  options: VerifyOptions = {},
): Promise<AuditReport> {
  const { bucket, maxRows = Infinity, knownRestores } = options;
  const epochs = await readEpochs(db, settings);
  const run = new Verification(db, settings, epochs, bucket);
  const outside = await run.readBucket();
  await run.startAt(options.from);
  let ended = false;
  while (!ended && run.rows < maxRows) ended = !(await run.verifyPage());
  const unsealed = ended ? await run.verifyEnd(outside.newest) : 0;
  const restores = await restoresOf(db, epochs, outside.recorded);
  const count = Math.max(0, ...restores.map(({ epoch }) => epoch));
  const { newest } = outside;
  const verdict = run.verdict(count, knownRestores, ended && run.isLate(newest));
  const { ignored, position } = run;
  return {
    ok: verdict === "ok" || (verdict === "lost_in_restore" && count <= (knownRestores ?? 0)),
    verdict,
    verified: run.verified,
    unsealed,
    head: { seq: position.seq, hash: position.hash },
    anchor: newest === undefined ? null : { seq: newest.seq, at: toWireTime(newest.at) },
    discrepancies: run.discrepancies,
    restores,
    ignored_heads: { count: ignored.length, keys: ignored.slice(0, MAX_IGNORED) },
    next: ended ? null : JSON.stringify(position),
  };
}

class Verification {
  readonly discrepancies: Discrepancy[] = [];
  verified = 0;
  rows = 0;
  readable = true;
  position: Position = { seq: 0, hash: AUDIT_GENESIS, signedSeq: 0 };
  readonly #db: D1Database;
  readonly #settings: Config;
  readonly #epochs: readonly OpenedEpoch[];
  readonly #bucket: AuditBucket | undefined;
  readonly #reader: AnchorReader | undefined;
  #sealedAt = 0;

  constructor(
    db: D1Database,
    settings: Config,
    epochs: readonly OpenedEpoch[],
    bucket: AuditBucket | undefined,
  ) {
    this.#db = db;
    this.#settings = settings;
    this.#epochs = epochs;
    this.#bucket = bucket;
    this.#reader = bucket && new AnchorReader(bucket, settings);
  }

  get ignored(): readonly string[] {
    return this.#reader?.ignored ?? [];
  }

  async readBucket(): Promise<{ newest: Anchor | undefined; recorded: readonly Epoch[] }> {
    const bucket = this.#bucket;
    const known = await this.#outside(async () => ({
      newest: await this.#reader?.newest(),
      recorded: bucket === undefined ? [] : await recordedEpochs(bucket, this.#settings),
    }));
    return known ?? { newest: undefined, recorded: [] };
  }

  async #outside<Result>(work: () => Promise<Result>): Promise<Result | undefined> {
    try {
      return await work();
    } catch (error) {
      log("warn", "audit_anchor_failed", errorFields(error));
      this.readable = false;
      return undefined;
    }
  }

  /** Continues the call before. Its last link must still be stored. */
  async startAt(from: string | undefined): Promise<void> {
    if (from === undefined) return;
    this.position = readPosition(from);
    const { seq, hash } = this.position;
    const [seal] = await sealsAfter(this.#db, seq - 1, 1);
    if (seal === undefined || seal.seq !== seq || seal.hash !== hash)
      this.discrepancies.push({ auditSeq: seq, kind: "changed" });
    this.#sealedAt = seal?.sealedAt ?? 0;
  }

  /** Returns false if there is no further page. */
  async verifyPage(): Promise<boolean> {
    const start = this.position.seq;
    const seals = await sealsAfter(this.#db, start, PAGE);
    const last = seals.at(-1);
    if (last === undefined) return false;
    const events = await eventsAfter(this.#db, start, PAGE);
    const rows = new Map(events.map((row) => [row.seq, row]));
    for (const seal of seals) {
      await this.#verifySeal(seal, rows.get(seal.seq));
      rows.delete(seal.seq);
    }
    // The numbers that an epoch skips have no events.
    for (const auditSeq of rows.keys())
      if (auditSeq < last.seq) this.discrepancies.push({ auditSeq, kind: "forged" });
    this.#sealedAt = last.sealedAt;
    this.rows += seals.length;
    await this.#outside(() => this.#compareAnchors(start + 1, seals));
    return true;
  }

  async #verifySeal(seal: AuditSeal, row: LoggedEvent | undefined): Promise<void> {
    const { seq: auditSeq, hash } = seal;
    const { position } = this;
    this.#expectNext(position.seq, auditSeq);
    if (row === undefined) this.discrepancies.push({ auditSeq, kind: "missing" });
    else if (linkOf(position.hash, row) !== hash)
      this.discrepancies.push({ auditSeq, kind: "changed" });
    else this.verified++;
    const signed = await isSigned(this.#settings, seal);
    if (!signed && seal.signature !== null) this.discrepancies.push({ auditSeq, kind: "unsigned" });
    // Continue from the stored link, so that one changed row is one discrepancy.
    this.position = { seq: auditSeq, hash, signedSeq: signed ? auditSeq : position.signedSeq };
  }

  /** Numbers have no gap, but before an epoch that follows this event. */
  #expectNext(before: number, seq: number): void {
    const [from, upTo] = [before + 1, seq - 1];
    if (upTo < from) return;
    if (this.#epochs.some((epoch) => epoch.seq === seq && epoch.follows === before)) return;
    const range = upTo > from ? { upTo } : {};
    this.discrepancies.push({ auditSeq: from, ...range, kind: "missing" });
  }

  async #compareAnchors(from: number, seals: readonly AuditSeal[]): Promise<void> {
    const hashes = new Map(seals.map(({ seq, hash }) => [seq, hash]));
    const to = seals.at(-1)?.seq ?? from;
    for await (const anchor of this.#reader?.between(from, to) ?? [])
      if (hashes.get(anchor.seq) !== anchor.hash) await this.#contradicts(anchor, "anchor");
  }

  /** Anyone who can write to the bucket can put a head there. Only signed ones count. */
  async #contradicts(anchor: Anchor, kind: "anchor" | "truncated", auditSeq = anchor.seq) {
    if (isLost(this.#epochs, anchor.seq)) return;
    if (await this.#reader?.isSigned(anchor)) this.discrepancies.push({ auditSeq, kind });
  }

  /** Returns the number of rows that are not sealed. */
  async verifyEnd(newest: Anchor | undefined): Promise<number> {
    const { seq, signedSeq } = this.position;
    // Each sealing ends with a signature, so somebody else wrote what follows the last one.
    if (signedSeq < seq) this.discrepancies.push({ auditSeq: signedSeq + 1, kind: "unsigned" });
    if (newest !== undefined && newest.seq > seq)
      await this.#contradicts(newest, "truncated", seq + 1);
    let [unsealed, last] = [0, seq];
    for (;;) {
      const rows = await eventsAfter(this.#db, last, PAGE);
      for (const row of rows) {
        this.#expectNext(last, row.seq);
        last = row.seq;
      }
      unsealed += rows.length;
      if (rows.length < PAGE) return unsealed;
    }
  }

  verdict(restores: number, known: number | undefined, isLate: boolean): AuditReport["verdict"] {
    if (this.discrepancies.length > 0) return "forged";
    if (known !== undefined && restores > known) return "unknown_restore";
    if (isLate || !this.readable) return "anchor_missing";
    return restores > 0 ? "lost_in_restore" : "ok";
  }

  isLate(newest: Anchor | undefined): boolean {
    return (
      this.position.seq > 0 && (newest === undefined || this.#sealedAt - newest.at > ANCHOR_LATE_MS)
    );
  }
}

/** Safe cast: `next` of an earlier call. With another text, the operator verifies nothing. */
function readPosition(from: string): Position {
  return JSON.parse(from) as Position;
}

async function restoresOf(
  db: D1Database,
  opened: readonly OpenedEpoch[],
  recorded: readonly Epoch[],
): Promise<Restore[]> {
  const inLog = new Set(opened.map(({ seq }) => seq));
  const lost = recorded.filter(({ seq }) => !inLog.has(seq));
  const epochs = [...opened, ...lost.map((epoch) => ({ ...epoch, at: null, actor: null }))];
  const ends = listed(epochs.map(({ keptUntil }) => keptUntil));
  const kept = await readAuditEvents(db, sql`WHERE a.audit_seq IN (${ends})`);
  const at = new Map(kept.map((row) => [row.seq, toWireTime(row.at)]));
  return epochs
    .toSorted((one, other) => one.epoch - other.epoch || one.seq - other.seq)
    .map((epoch) => ({
      epoch: epoch.epoch,
      audit_seq: epoch.seq,
      in_log: inLog.has(epoch.seq),
      at: toWireTimeOrNull(epoch.at),
      actor: epoch.actor,
      kept_until: epoch.keptUntil,
      kept_until_at: at.get(epoch.keptUntil) ?? null,
      lost:
        epoch.lostUntil > epoch.keptUntil
          ? { from: epoch.keptUntil + 1, to: epoch.lostUntil }
          : null,
    }));
}

function sealsAfter(db: D1Database, after: number, limit: number): Promise<AuditSeal[]> {
  return readAuditSeals(db, sql`WHERE audit_seq > ${after} ORDER BY audit_seq LIMIT ${limit}`);
}

async function isSigned(
  settings: Config,
  { keyId, signature, ...head }: AuditSeal,
): Promise<boolean> {
  if (keyId === null || signature === null) return false;
  return headVerifies(settings, { ...head, keyId, signature });
}
