/**
 * Mutants of the archive: what the sealer, a release, a reader and `restore` must not leave out.
 */
import type { Mutant } from "./mutants.ts";

export const SEALER_MUTANTS: readonly Mutant[] = [
  {
    name: "seal-not-read-back",
    file: "src/archive/seal-round.ts",
    find: "const stored = await tryReadSeal(bucket, { ...head, sha256: encoded.sha256 });",
    replace: "const stored = { seal, ...encoded, bytes: 1 };",
    breaks: "a seal is stored only if the archive has it",
  },
  {
    name: "locked-key-fails",
    file: "src/platform/put-once.ts",
    find: "if (found === null) throw error;",
    replace: "throw found ?? error;",
    breaks: "sealing goes on if the object of an earlier attempt is locked",
  },
  {
    name: "memory-ignored",
    file: "src/archive/seal-round.ts",
    find: "compareWithMemory(context.memory, state)",
    replace:
      "compareWithMemory({ ...context.memory, last: { ...context.memory.last, number: 0 }, " +
      "highest: 0 }, state)",
    breaks: "sealing halts on a database that was restored",
  },
  {
    name: "epoch-kept",
    file: "src/archive/sealer-memory.ts",
    find: "epoch: Math.max(memory.epoch, last.epoch) + 1,",
    replace: "epoch: Math.max(memory.epoch, last.epoch),",
    breaks: "sealing continues in a new epoch after a restore",
  },
  {
    name: "restore-trusts-the-jump",
    file: "src/operator/restore.ts",
    find: "(await sealer.highestTransfer()) + SEQUENCE_JUMP",
    replace: "SEQUENCE_JUMP",
    breaks: "no number of a lost transfer is used again",
  },
  {
    name: "restore-trusts-the-sealer",
    file: "src/operator/restore.ts",
    find: "(await sealer.highestTransfer()) + SEQUENCE_JUMP",
    replace: "await sealer.highestTransfer()",
    breaks: "no number of a lost transfer is used again",
  },
  {
    name: "page-ends-at-the-mark",
    file: "src/ledger/history.ts",
    find: "if (archived === undefined || here.unsearched !== null) return here;",
    replace: "if (archived !== null) return here;",
    breaks: "pages contain what was sealed",
  },
  {
    name: "footer-unverified",
    file: "src/archive/footer.ts",
    find: "if (found !== expected)",
    replace: "if (found === expected + expected)",
    breaks: "a history trusts only what the database vouches for",
  },
  {
    name: "newest-seal-unknown",
    file: "src/archive/seal-row.ts",
    find: "SET last_seal = ${number},",
    replace: "SET last_seal = sealed_owners.last_seal,",
    breaks: "a history contains the newest seal of its owner",
  },
];
