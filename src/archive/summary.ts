/**
 * What a footer lists of a block beyond its bounds, so that a reader can skip the block: the
 * amounts of its transfers and the requests that its records name. A history keeps both.
 */
import { ByteReader, ByteWriter, concat, fromHex } from "./bytes.ts";

type Bounds = { readonly least: bigint; readonly most: bigint };

/** Larger amounts are rare. Smaller ones are exact as numbers, which are read much faster. */
const LARGEST_NUMBER = BigInt(Number.MAX_SAFE_INTEGER);

/** The different amounts of each of the assets, in their order, from the smallest on. */
export function encodeAmounts(
  assets: readonly string[],
  transfers: readonly { readonly asset: string; readonly amount: bigint }[],
): Uint8Array<ArrayBuffer> {
  const amounts = new Map(assets.map((asset) => [asset, new Set<bigint>()]));
  for (const { asset, amount } of transfers) amounts.get(asset)?.add(amount);
  const writer = new ByteWriter();
  for (const different of amounts.values()) {
    const sorted = [...different].toSorted((a, b) => (a < b ? -1 : 1));
    const isNumber = (amount: bigint) => amount >= 0n && amount <= LARGEST_NUMBER;
    const numbers = sorted.filter(isNumber).map(Number);
    const others = sorted.filter((amount) => !isNumber(amount));
    writer.uint(numbers.length);
    numbers.forEach((amount, place) => writer.uint(amount - (numbers[place - 1] ?? 0)));
    writer.uint(others.length);
    others.forEach((amount) => writer.bigint(amount));
  }
  return writer.finish();
}

/**
 * Whether an amount of a wanted asset is within the bounds. `wanted` has a place for each asset.
 */
export function hasAmount(
  amounts: Uint8Array,
  wanted: readonly boolean[],
  { least, most }: Bounds,
): boolean {
  const reader = new ByteReader(amounts);
  // Bounds beyond the exact numbers are rounded to one that is greater than all of these.
  const [from, to] = [Number(least), Number(most)];
  for (const isWanted of wanted) {
    let amount = 0;
    for (let left = reader.count(); left > 0; left--) {
      amount += reader.uint();
      if (isWanted && amount >= from && amount <= to) return true;
    }
    for (let left = reader.count(); left > 0; left--) {
      const large = reader.bigint();
      if (isWanted && large >= least && large <= most) return true;
    }
  }
  return false;
}

/** Of each id: its last bytes, which are random. Two requests with the same ones cost a read. */
const MARK_BYTES = 4;

/** Marks of requests, in order. */
export function encodeMarks(ids: readonly string[]): Uint8Array<ArrayBuffer> {
  return concat([...new Set(ids.map(markOf))].toSorted().map(fromHex));
}

export function hasMark(marks: Uint8Array, id: string): boolean {
  const mark = fromHex(markOf(id));
  for (let place = 0; place < marks.length; place += MARK_BYTES)
    if (mark.every((byte, offset) => marks[place + offset] === byte)) return true;
  return false;
}

function markOf(id: string): string {
  return id.slice(-2 * MARK_BYTES);
}
