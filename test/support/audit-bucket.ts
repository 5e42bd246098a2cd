/** Buckets for heads of the audit log, of their own for a test that forges. */
import type { AuditBucket } from "../../src/audit/anchor.ts";

type MemoryBucket = AuditBucket & {
  /** When R2 receives what is put next. */
  uploadedAt: number;
  readonly keys: () => string[];
};

/** With R2's order of keys. */
export function memoryBucket(): MemoryBucket {
  const objects = new Map<string, R2PutOptions & { uploaded: Date }>();
  const bucket = {
    uploadedAt: Date.now(),
    keys: () => [...objects.keys()].toSorted(),
    put: async (key: string, _body: unknown, options: R2PutOptions) => {
      const uploaded = new Date(bucket.uploadedAt);
      if (!objects.has(key)) objects.set(key, { ...options, uploaded });
      return null;
    },
    head: async (key: string) => objects.get(key) ?? null,
    list: async ({ prefix = "", startAfter = "", limit = 1_000 }: R2ListOptions) => ({
      objects: [...objects]
        .filter(([key]) => key > startAfter && key.startsWith(prefix))
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .slice(0, limit)
        .map(([key, { customMetadata, uploaded }]) => ({ key, customMetadata, uploaded })),
    }),
  };
  // Safe cast: of R2's objects the service reads these members.
  return bucket as unknown as MemoryBucket;
}

const unreachable = () => Promise.reject(new Error("R2 is away"));
export const AWAY: AuditBucket = {
  put: unreachable,
  head: unreachable,
  list: unreachable,
};
