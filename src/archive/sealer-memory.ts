/** The sealer's memory outside the database. A restore leaves it, so it shows what was lost. */
import { GENESIS, type SealHead, type SealRef } from "./footer.ts";
import type { GroupRange } from "./choose-range.ts";
import type { SealRow } from "./seal-row.ts";

export type SealerMemory = {
  readonly epoch: number;
  /** The last seal that the database has stored. */
  readonly last: SealRef & Pick<SealHead, "upTo" | "upToGroup">;
  /** The range of a seal that is being made. It is made again from the same range after a crash. */
  readonly chosen: GroupRange | null;
  /** The highest transfer ever seen. */
  readonly highest: number;
};

const NONE = { epoch: 1, number: 0, upTo: 0, upToGroup: 0, sha256: GENESIS };

export const FIRST_MEMORY: SealerMemory = { epoch: 1, last: NONE, chosen: null, highest: 0 };

/** What the database says of its own. */
export type DatabaseState = {
  /** The newest seals, the last one first. */
  readonly seals: readonly SealRow[];
  readonly highest: number;
};

/**
 * Compares the database with the memory. Says what the database lacks, or returns the memory with
 * what only the database has, because a seal whose response was lost is stored.
 */
export function compareWithMemory(
  memory: SealerMemory,
  { seals, highest }: DatabaseState,
): { readonly lost: string } | { readonly memory: SealerMemory } {
  const known = seals.find(({ number }) => number === memory.last.number);
  if (memory.last.number > 0 && known === undefined)
    return {
      lost: `the sealer stored seal ${memory.last.number}, the database ends with ${seals[0]?.number ?? "none"}`,
    };
  if (known !== undefined && known.sha256 !== memory.last.sha256)
    return { lost: `seal ${known.number} of the database is not the one that the sealer stored` };
  if (highest < memory.highest)
    return {
      lost: `the sealer has seen transfer ${memory.highest}, the database ends with ${highest}`,
    };
  const last = seals[0] ?? NONE;
  const advanced = last.number > memory.last.number;
  return {
    memory: {
      epoch: Math.max(memory.epoch, last.epoch),
      last: endOf(last),
      chosen: advanced ? null : memory.chosen,
      highest,
    },
  };
}

/** A new epoch on the seals that a restore has left. restore.ts skips the lost transfers before. */
export function nextEpoch(memory: SealerMemory, { seals, highest }: DatabaseState): SealerMemory {
  const last = seals[0] ?? NONE;
  return {
    epoch: Math.max(memory.epoch, last.epoch) + 1,
    last: endOf(last),
    chosen: null,
    highest,
  };
}

export function endOf({ epoch, number, upTo, upToGroup, sha256 }: SealerMemory["last"]) {
  return { epoch, number, upTo, upToGroup, sha256 };
}
