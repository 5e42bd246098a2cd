import { ideas, type Mutant } from "../mutant.ts";

export const ARCHIVE: readonly Mutant[] = [
  ...ideas("src/archive/ask-history.ts", "archive/cold-entries", {
    "a page that ended early is the last one": [
      "return { rows: await withHashes(db, rows), before };",
      "return { rows: await withHashes(db, rows), before: null };",
    ],
  }),
  ...ideas("src/archive/block-index.ts", "archive/cold-entries", {
    "a page that examined enough blocks is the last one": [
      "before: BigInt(entry.block.high) + 1n",
      "before: null",
    ],
  }),
  ...ideas("src/archive/block-index.ts", "archive/cold-records", {
    "a block that overlaps the page is skipped": [
      "if (last !== undefined && positionOf(last).at > high)",
      "if (last !== undefined)",
    ],
  }),
  ...ideas("src/archive/choose-range.ts", "archive/sealer", {
    "unscanned transfers sealed": [
      "const before = Math.min(cold, unchecked ?? cold);",
      "const before = Math.min(cold, cold + (unchecked ?? 0));",
    ],
  }),
  ...ideas("src/archive/follow-chain.ts", "archive/cold-entries", {
    "a block is kept unverified": ["    openBlock(kind, bytes, block);\n", ""],
  }),
  ...ideas("src/archive/footer.ts", "archive/release", {
    "an object with another hash taken": ["if (found !== expected)", 'if (expected === "")'],
  }),
  ...ideas("src/archive/release.ts", "archive/release", {
    "the newest record's first transfer deleted": [
      "t.ref = (SELECT ref FROM transfers ORDER BY transfer_id DESC LIMIT 1)",
      "t.transfer_id = (SELECT max(transfer_id) FROM transfers)",
    ],
    "the transfer of a withdrawal that awaits approval deleted": [
      "w.status ${UNFINISHED}",
      "w.status IN ('queued', 'submitted')",
    ],
    "a request deleted before its quotes": [
      "expr`NOT EXISTS (SELECT 1 FROM quotes q WHERE q.request_id = r.request_id)`",
      "expr`1`",
    ],
    "sums of deleted matches lost": [
      "      addVenueDays(sql`m.match_id IN (${matches}) AND ${applied}`),\n",
      "",
    ],
  }),
  ...ideas("src/audit/audit.ts", "archive/verify-journal", {
    "a forged event counts": ["isGenuine(keys, event)", "event.mac !== null"],
  }),
  ...ideas("src/archive/sealer-memory.ts", "archive/sealer", {
    "lost transfers ignored": ["if (highest < memory.highest)", "if (highest < 0)"],
  }),
  ...ideas("src/archive/stored-blocks.ts", "archive/cold-records", {
    "blocks of lost seals are read": [
      "AND s.linked = 1\n            WHERE b.kind = ? AND +b.number <= ? AND",
      "\n            WHERE b.kind = ? AND +b.number <= ? + 1000 AND",
    ],
  }),
  ...ideas("src/archive/verify-journal.ts", "archive/verify-journal", {
    "a seal without an event verifies": [
      "return found ? [] : [{",
      "return found || row.number > 0 ? [] : [{",
    ],
    "a deleted last seal unseen": [
      "events.some(({ number }) => number === end + 1)",
      "events.length < 0",
    ],
  }),
];
