/** `journal verify` over a database and a bucket, for the simulator and tests. */
import {
  LIMITS,
  type PartLimits,
  readAccounts,
  readOwners,
  verifySeals,
} from "../../src/archive/verify-journal.ts";
import type { SealBucket } from "../../src/archive/seal-store.ts";
import type { MacKeys } from "../../src/audit/event-mac.ts";
import { type JournalReport, type VerifyOptions, verifyArchive } from "./verify-archive.ts";

/** All parts of a database and a bucket, one after the other. */
export function verifyJournal(
  db: D1Database,
  bucket: SealBucket,
  macKeys: MacKeys,
  { limits = LIMITS, ...options }: VerifyOptions & { limits?: PartLimits } = {},
): Promise<JournalReport> {
  const source = {
    seals: (from: number, most?: number) =>
      verifySeals({ db, bucket, macKeys, limits }, from, most),
    accounts: (after: number) => readAccounts(db, after, limits),
    owners: (after: string) => readOwners(db, after, limits),
  };
  return verifyArchive(source, options);
}
