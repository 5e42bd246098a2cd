/**
 * Reads of blocks that run while earlier blocks are examined. A read of R2 takes tens of
 * milliseconds, and a page of a user with few entries may need fifty.
 */

/** A Worker has six connections. Further reads would wait. */
const MOST_AHEAD = 6;

type Read<Item, Content> = { readonly item: Item; readonly content: Promise<Content> };

/**
 * The items in their order, each with its content. Most pages need one block, so the first read is
 * alone, and one more runs with each item that the caller takes. `close` follows each read that
 * succeeded, when the caller takes the next item or ends.
 */
export function* readAhead<Item, Content>(
  items: Iterable<Item>,
  read: (item: Item) => Promise<Content>,
  close: (item: Item) => void = () => undefined,
): Generator<Read<Item, Content>> {
  const rest = items[Symbol.iterator]();
  const ahead: Read<Item, Content>[] = [];
  try {
    for (let width = 1; ; width = Math.min(width + 1, MOST_AHEAD)) {
      while (ahead.length < width) {
        const next = rest.next();
        if (next.done === true) break;
        const content = read(next.value);
        // The caller may not need it. If it does, it sees the error.
        content.catch(() => undefined);
        ahead.push({ item: next.value, content });
      }
      const [first] = ahead;
      if (first === undefined) return;
      yield first;
      ahead.shift();
      closeAll([first], close);
    }
  } finally {
    closeAll(ahead, close);
  }
}

function closeAll<Item, Content>(
  reads: readonly Read<Item, Content>[],
  close: (item: Item) => void,
): void {
  for (const { item, content } of reads)
    content.then(
      () => close(item),
      () => undefined,
    );
}
