/** Where each owner's chain of blocks begins and ends, by the seals. `sealed_owners` repeats it. */
import { type Footer, previousOf, type SealId } from "./footer.ts";
import type { Owner } from "./sealed-columns.ts";

export type OwnerEnds = {
  /** The first seal with a block of the owner, and the last one. */
  readonly first: number;
  readonly last: SealId;
  /** When the newest sealed record of each kind was opened or made. */
  readonly requestAt: number | null;
  readonly quoteAt: number | null;
  readonly matchAt: number | null;
};

/** An owner with blocks in a seal, and the seal that they name as the one before. */
export type OwnerLink = {
  readonly owner: Owner;
  readonly previous: SealId | null;
  readonly ends: OwnerEnds;
};

/** What one seal says of each of its owners. */
export function linksIn({ head: { epoch, number }, blocks }: Footer): OwnerLink[] {
  const links = new Map<Owner, OwnerLink>();
  for (const block of blocks) {
    const { owner, kind, lastAt } = block;
    const newest = (of: string) => (kind === of ? lastAt : null);
    const ends = joinEnds(links.get(owner)?.ends, {
      first: number,
      last: { epoch, number },
      requestAt: newest("requests"),
      quoteAt: newest("quotes"),
      matchAt: newest("matches"),
    });
    links.set(owner, { owner, previous: previousOf(block), ends });
  }
  return [...links.values()];
}

/** Of two parts of the chain, in any order. */
export function joinEnds(one: OwnerEnds | undefined, other: OwnerEnds): OwnerEnds {
  if (one === undefined) return other;
  return {
    first: Math.min(one.first, other.first),
    last: one.last.number > other.last.number ? one.last : other.last,
    requestAt: later(one.requestAt, other.requestAt),
    quoteAt: later(one.quoteAt, other.quoteAt),
    matchAt: later(one.matchAt, other.matchAt),
  };
}

function later(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.max(one, other);
}

/** Numbers of seals that were not read. */
export type Unread = Pick<ReadonlySet<number>, "has" | "size">;

/** Whether a row says something else than the seals. It may say what only an unread one can. */
export function rowDiffers(
  row: OwnerEnds | undefined,
  known: OwnerEnds | undefined,
  unread: Unread,
): boolean {
  if (row === undefined) return known !== undefined;
  const [first, last] = [row.first, row.last.number];
  if (known === undefined) return !unread.has(first) || !unread.has(last);
  if (unread.size === 0) return ownerEndsText(row) !== ownerEndsText(known);
  return (
    ownerEndsText(joinEnds(row, known)) !== ownerEndsText(row) ||
    (first !== known.first && !unread.has(first)) ||
    (last !== known.last.number && !unread.has(last))
  );
}

/** For people. */
export function ownerEndsText(ends: OwnerEnds | undefined): string {
  if (ends === undefined) return "no block";
  const { first, last, requestAt, quoteAt, matchAt } = ends;
  const times = [requestAt, quoteAt, matchAt].map((at) => at ?? "none").join(", ");
  return `blocks in seals ${first} to ${last.number}, newest request, quote and match ${times}`;
}
