/**
 * Whether a committer shared by many books would earn its place: quotes over 256 books that commit
 * each for themselves, or through one or four objects that commit for all of them.
 */
import { fillDay, QUOTES_OF_A_DAY, QUOTES_OF_A_QUICK_DAY } from "./day.ts";
import { type Bench, type Figure, median, number } from "./figures.ts";
import { PATIENT, quotesOverBooks, quotesOverRest, type Rate } from "./quote-loads.ts";
import type { BenchStack } from "./stack.ts";

const SHARDS = [0, 1, 4] as const;

export const benchCommitter: Bench = async ({ quick, say, start }) => {
  const [rounds, forMs] = quick ? [2, 2_000] : [5, 4_000];
  const stack = await start({ settings: PATIENT, committer: true });
  await fillDay(stack.db, quick ? QUOTES_OF_A_QUICK_DAY : QUOTES_OF_A_DAY);
  const oneBook: Rate[] = [];
  const manyBooks = new Map<number, Rate[]>(SHARDS.map((shards) => [shards, []]));
  const perBatch = new Map<number, number[]>(SHARDS.map((shards) => [shards, []]));
  for (let round = 0; round < rounds; round++) {
    await useCommitters(stack, 0);
    oneBook.push(await quotesOverRest(stack, forMs));
    for (const shards of SHARDS) {
      await useCommitters(stack, shards);
      manyBooks.get(shards)?.push(await quotesOverBooks(stack, forMs));
      const { batches, groups } = await useCommitters(stack, 0);
      perBatch.get(shards)?.push(batches === 0 ? 1 : groups / batches);
    }
    const last = SHARDS.map((shards) => manyBooks.get(shards)?.at(-1));
    say(
      `  round ${round + 1}: one book ${number(oneBook.at(-1)?.cpuMicros ?? 0)} µs a ` +
        `quote; 256 books with ${SHARDS.join(", ")} committers ` +
        `${last.map((rate) => number(rate?.cpuMicros ?? 0)).join(", ")} µs`,
    );
  }
  const of = (list: readonly Rate[], pick: (rate: Rate) => number) => median(list.map(pick));
  return SHARDS.flatMap((shards): Figure[] => {
    const rates = manyBooks.get(shards) ?? [];
    const name = shards === 0 ? "each book commits" : `${shards} shared committers`;
    return [
      {
        what: `quotes over 256 books, ${name}`,
        unit: "/s",
        ours: of(rates, (rate) => rate.perSecond),
        peer: { name: "one book", value: of(oneBook, (rate) => rate.perSecond) },
      },
      {
        what: "  processor time of workerd per quote",
        unit: "µs",
        ours: of(rates, (rate) => rate.cpuMicros),
        peer: { name: "one book", value: of(oneBook, (rate) => rate.cpuMicros) },
        note:
          `${number(median(perBatch.get(shards) ?? []))} groups in a batch, p99 ` +
          `${number(of(rates, (rate) => rate.p99))} ms`,
      },
    ];
  });
};

/** Returns what was committed since the last call. */
async function useCommitters(
  stack: BenchStack,
  shards: number,
): Promise<{ batches: number; groups: number }> {
  const response = await fetch(`http://127.0.0.1:${stack.port}/bench/committers?shards=${shards}`);
  return (await response.json()) as { batches: number; groups: number };
}
