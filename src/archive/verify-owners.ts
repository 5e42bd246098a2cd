/** The part of `journal verify` that follows each owner's chain of blocks. Pure. */
import type { SealId } from "./footer.ts";
import {
  joinEnds,
  type OwnerEnds,
  type OwnerLink,
  rowDiffers,
  textOf,
  type Unread,
} from "./owner-ends.ts";

export class OwnerChains {
  readonly #unread: Unread;
  readonly #read = new Map<string, OwnerEnds>();
  readonly #compared = new Set<string>();

  constructor(unread: Unread) {
    this.#unread = unread;
  }

  /** Returns what is wrong with the link to the blocks before. */
  take({ owner, previous, ends }: OwnerLink): string | undefined {
    const known = this.#read.get(owner);
    this.#read.set(owner, joinEnds(known, ends));
    const expected = known?.last ?? null;
    if (this.#follows(previous, expected)) return undefined;
    return `the block of ${owner} names ${nameOf(previous)} as the one before; expected ${nameOf(expected)}`;
  }

  /** The block before may be in a seal that was not read. */
  #follows(stated: SealId | null, last: SealId | null): boolean {
    if (stated !== null && this.#unread.has(stated.number))
      return stated.number > (last?.number ?? 0);
    return stated?.number === last?.number && stated?.epoch === last?.epoch;
  }

  /** Returns what is wrong with the row of an owner. */
  compare(owner: string, row: OwnerEnds): string | undefined {
    this.#compared.add(owner);
    const known = this.#read.get(owner);
    return rowDiffers(row, known, this.#unread) ? detailOf(owner, row, known) : undefined;
  }

  /** Owners that no row was compared for, although the seals up to this one have blocks of them. */
  withoutRow(upTo: number): string[] {
    return [...this.#read]
      .filter(([owner, { first }]) => first <= upTo && !this.#compared.has(owner))
      .map(([owner, ends]) => detailOf(owner, undefined, ends));
  }
}

function detailOf(owner: string, row: OwnerEnds | undefined, known: OwnerEnds | undefined): string {
  return `sealed_owners states of ${owner} ${textOf(row)}; the seals have ${textOf(known)}`;
}

function nameOf(id: SealId | null): string {
  return id === null ? "none" : `seal ${id.number}`;
}
