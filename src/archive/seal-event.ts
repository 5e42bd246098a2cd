/**
 * The audit event of a seal. Somebody who can write to the database and to the bucket can make
 * another seal and a row that fits. They cannot make its event: it has a MAC by a key of AUDIT_KEYS
 * and is part of the audit log, whose signed heads are kept outside the database.
 */
import { auditRow, genuineEvents } from "../audit/audit.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import { detailsOf } from "../audit/event-details.ts";
import type { Group } from "../platform/commit.ts";
import { expr, type Sql } from "../platform/sql.ts";
import type { SealId } from "./footer.ts";

/** `sha256` is that of the object, without `0x`. */
export type SealedAs = SealId & { readonly sha256: string };

export function sealEvent(keys: MacKeys, { epoch, number, sha256 }: SealedAs, group: Group): Sql {
  const record = {
    kind: "journal_sealed",
    actor: "operator:sealer",
    userId: null,
    apiKeyId: null,
    ip: null,
    subjectId: String(number),
    details: detailsOf(keys, "journal_sealed", { epoch, sha256 }),
  } as const;
  return auditRow(record, group.at, expr`1`);
}

/** What the service has sealed under these numbers, as genuine audit events say. */
export async function readSealEvents(
  db: D1Database,
  keys: MacKeys,
  numbers: readonly number[],
): Promise<readonly SealedAs[]> {
  const subjects = numbers.map(String);
  const events = await genuineEvents(db, keys, { kind: "journal_sealed", subjects });
  return events.map(({ subjectId, details }) => ({
    // Safe cast: only `sealEvent` writes genuine events of this kind.
    ...(JSON.parse(details ?? "") as Omit<SealedAs, "number">),
    number: Number(subjectId),
  }));
}
