import { RELEASE, SEALER, of, type Mutant } from "./mutant.ts";

export const ARCHIVE_MUTANTS: readonly Mutant[] = [
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
    ["object not read", "return sha256 === next.sha256", "return sha256 !== ''", [RELEASE]],
  ]),
  ...of("archive", "src/archive/seal-round.ts", [
    [
      "another object taken",
      "if (again.sha256 === stored.sha256) return stored;",
      "if (again.sha256 !== '') return stored;",
      [SEALER],
    ],
  ]),
  ...of("archive", "src/archive/sealer-memory.ts", [
    ["lost transfers ignored", "if (highest < memory.highest)", "if (highest < 0)", [SEALER]],
  ]),
  ...of("archive", "src/archive/choose-range.ts", [
    [
      "unwalked transfers sealed",
      "return Math.min(cold, row?.unchecked ?? cold);",
      "return Math.min(cold, cold + (row?.unchecked ?? 0));",
      [SEALER],
    ],
  ]),
];
