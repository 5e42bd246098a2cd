/**
 * The audit event of a seal. Somebody who can write to the database and to the bucket can make
 * another seal and a row that fits. They cannot make its event: it has a MAC by a key of AUDIT_KEYS
 * and is part of the audit log, whose signed heads are kept outside the database.
 */
import { auditRow, detailed, genuineEvents, recordBy } from "../audit/audit.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import type { Group } from "../platform/commit.ts";
import { type Sql, TRUE } from "../platform/sql.ts";
import type { SealRef } from "./footer.ts";

const KIND = "journal_sealed";

export function sealEvent(keys: MacKeys, { epoch, number, sha256 }: SealRef, group: Group): Sql {
  const record = recordBy("operator:sealer", KIND, { subjectId: String(number) });
  return auditRow(detailed(keys, record, { epoch, sha256 }), group.at, TRUE);
}

/** What the service has sealed under these numbers, as genuine audit events say. */
export async function readSealEvents(
  db: D1Database,
  keys: MacKeys,
  numbers: readonly number[],
): Promise<readonly SealRef[]> {
  const events = await genuineEvents(db, keys, { kind: KIND, subjects: numbers.map(String) });
  return events.map(({ subjectId, details }) => ({
    // Safe cast: only `sealEvent` writes genuine events of this kind.
    ...(JSON.parse(details ?? "") as Omit<SealRef, "number">),
    number: Number(subjectId),
  }));
}
