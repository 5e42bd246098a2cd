import { ideas, type Mutant } from "../mutant.ts";

export const ARCHIVE: readonly Mutant[] = [
  ...ideas("src/archive/choose-range.ts", "archive/sealer", {
    "unscanned transfers sealed": [
      "const before = Math.min(cold, unchecked ?? cold);",
      "const before = Math.min(cold, cold + (unchecked ?? 0));",
    ],
  }),
  ...ideas("src/archive/footer.ts", "archive/release", {
    "an object with another hash taken": ["if (found !== expected)", 'if (expected === "")'],
  }),
  ...ideas("src/archive/history-tables.ts", "archive/cold-entries", {
    "a seal is taken in twice": ["      if (this.isTaken({ number, epoch })) return;\n", ""],
    "a lost seal's rows stay": [
      "DELETE FROM ${table} WHERE at > ?",
      "DELETE FROM ${table} WHERE at < ? AND 0",
    ],
  }),
  ...ideas("src/archive/own-history.ts", "archive/cold-entries", {
    "a history that is behind answers": [
      "    await this.follow(owner, newest);\n    return",
      "    return",
    ],
    "a lost seal above the newest one stays": ["this.#tables.forgetAbove(number);", "void number;"],
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
