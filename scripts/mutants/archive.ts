import {
  COLD,
  COLD_RECORDS,
  RELEASE,
  SCHEMA,
  SEALER,
  VERIFY_JOURNAL,
  of,
  type Mutant,
} from "./mutant.ts";

export const ARCHIVE_MUTANTS: readonly Mutant[] = [
  ...of("archive", "src/archive/verify-journal.ts", [
    [
      "a seal without an event verifies",
      "return found ? [] : [{",
      "return found || row.number > 0 ? [] : [{",
      [VERIFY_JOURNAL],
    ],
    [
      "a deleted last seal unseen",
      "events.some(({ number }) => number === end + 1)",
      "events.length < 0",
      [VERIFY_JOURNAL],
    ],
  ]),
  ...of("archive", "src/archive/seal-event.ts", [
    ["a forged event counts", "isGenuine(keys, event)", "event.mac !== null", [VERIFY_JOURNAL]],
  ]),
  ...of("archive", "src/archive/release.ts", [
    [
      "a record's first transfer deleted before its last is sealed",
      "    OR EXISTS (SELECT 1 FROM transfers n WHERE n.ref = t.ref AND n.transfer_id > ${upTo})`",
      "`",
      [RELEASE],
    ],
    [
      "the newest record's first transfer deleted",
      "t.ref = (SELECT ref FROM transfers ORDER BY transfer_id DESC LIMIT 1)",
      "t.transfer_id = (SELECT max(transfer_id) FROM transfers)",
      [RELEASE],
    ],
    [
      "the transfer of a withdrawal that awaits approval deleted",
      "w.status IN ('awaiting_approval', 'queued', 'submitted')",
      "w.status IN ('queued', 'submitted')",
      [RELEASE],
    ],
    [
      "quotes deleted although one is missing",
      '          AND quotes = ${counted("quotes")}\n',
      "",
      [RELEASE],
    ],
    [
      "matches deleted although one is missing",
      "          AND matches = (SELECT count(*) FROM matches WHERE match_id IN (${matches}))`",
      "`",
      [RELEASE],
    ],
    [
      "a request deleted before its quotes",
      "expr`NOT EXISTS (SELECT 1 FROM quotes q WHERE q.request_id = r.request_id)`",
      "expr`1`",
      [RELEASE],
    ],
    [
      "sums of deleted matches lost",
      "      addVenueDays(sql`m.match_id IN (${matches}) AND ${applied}`),\n",
      "",
      [RELEASE],
    ],
  ]),
  ...of("archive", SCHEMA, [
    [
      "any ended quote deleted",
      "'append-only: a quote that is not sealed')\n    WHERE (SELECT",
      "'append-only: a quote that is not sealed')\n    WHERE 0 AND (SELECT",
      [RELEASE],
    ],
    [
      "any ended request deleted",
      "'append-only: a request that is not sealed')\n    WHERE (SELECT",
      "'append-only: a request that is not sealed')\n    WHERE 0 AND (SELECT",
      [RELEASE],
    ],
    [
      "any match deleted",
      "    WHERE (SELECT matches_released_at FROM journal_seals WHERE last_at >= OLD.at\n",
      "    WHERE 0 AND (SELECT matches_released_at FROM journal_seals WHERE last_at >= OLD.at\n",
      [RELEASE],
    ],
  ]),
  ...of("archive", "src/rfq/examined-page.ts", [
    [
      "a page that the archive should fill ends early",
      "here.completeTo.at > (newest ?? 0);",
      "here.completeTo.at > 0;",
      [COLD_RECORDS],
    ],
    [
      "a page lists what is not known to be complete",
      "completeTo: a === null || b === null ? (a ?? b) : isOlder(a, b) ? b : a,",
      "completeTo: a,",
      [COLD_RECORDS],
    ],
    [
      "a record on both sides is listed twice",
      "[position(row).id, row]",
      "[row, row]",
      [COLD_RECORDS],
    ],
  ]),
  ...of("archive", "src/archive/follow-chain.ts", [
    ["a block is kept unverified", "    openBlock(kind, bytes, block);\n", "", [COLD]],
  ]),
  ...of("archive", "src/archive/block-index.ts", [
    [
      "a page that examined enough blocks is the last one",
      "last === undefined ? examination.endedAt : BigInt(last.block.low)",
      "last === undefined ? null : BigInt(last.block.low)",
      [COLD],
    ],
  ]),
  ...of("archive", "src/archive/ask-history.ts", [
    [
      "a page that ended early is the last one",
      "return { rows: await withHashes(db, rows), before };",
      "return { rows: await withHashes(db, rows), before: null };",
      [COLD],
    ],
  ]),
  ...of("archive", "src/ledger/history.ts", [
    [
      "a page repeats entries of the next one",
      ".filter(({ entry_id }) => BigInt(entry_id) >= (older.before ?? 0n))",
      "",
      [COLD],
    ],
  ]),
  ...of("archive", "src/archive/stored-blocks.ts", [
    [
      "blocks of lost seals are read",
      "AND s.linked = 1\n          WHERE b.kind = ? AND +b.number <= ? AND",
      "\n          WHERE b.kind = ? AND +b.number <= ? + 1000 AND",
      [COLD_RECORDS],
    ],
  ]),
  ...of("archive", "src/archive/cold-records.ts", [
    [
      "a block that overlaps the page is skipped",
      "if (last !== undefined && positionOf(last).at > page.next.at)",
      "if (last !== undefined)",
      [COLD_RECORDS],
    ],
  ]),
  ...of("archive", "src/rfq/recall.ts", [
    ["a repeated accept is unknown", 'command.op !== "accept"', "true", [COLD_RECORDS]],
    [
      "an accept of someone else's quote repeated",
      'if (row.role === "requester") return',
      "if (row.match_id !== '') return",
      [COLD_RECORDS],
    ],
  ]),
  ...of("archive", "src/archive/footer.ts", [
    [
      "an object with another hash taken",
      "if (footer.sha256 !== expected)",
      'if (expected === "")',
      [RELEASE],
    ],
  ]),
  ...of("archive", "src/archive/sealer-memory.ts", [
    ["lost transfers ignored", "if (highest < memory.highest)", "if (highest < 0)", [SEALER]],
  ]),
  ...of("archive", "src/archive/choose-range.ts", [
    [
      "unscanned transfers sealed",
      "return Math.min(cold, unchecked ?? cold);",
      "return Math.min(cold, cold + (unchecked ?? 0));",
      [SEALER],
    ],
  ]),
];
