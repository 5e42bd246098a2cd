/**
 * The footer of a sealed object: three lines of JSON. The first is the head, the second lists the
 * blocks, the third how long each is as compressed. The seal's hash is that of the first two. So it
 * covers all content, and equal content has an equal hash however the runtime compresses it.
 */
import { createHash } from "node:crypto";
import {
  hex,
  number,
  orNull,
  readTable,
  type TextRowOf,
  SealMalformed,
  text,
  writeTable,
} from "./column-text.ts";

/** The hash that the first seal names as its previous one. */
export const GENESIS = "00".repeat(32);

/** A seal of another version is refused. A further column needs no further version. */
const VERSION = 1;

/** The place of a seal in its chain, and the range that it covers. */
const HEAD = {
  version: number,
  /** Rises with every restore of the database. Readers ignore seals of epochs that were lost. */
  epoch: number,
  /** Counts from 1 over all epochs. */
  number,
  /** The hash of the previous seal, or GENESIS. */
  previous: hex,
  /** The range of transfers `after < id <= upTo`. Both are equal if there is none. */
  after: number,
  upTo: number,
  /** The range of commit groups whose ended requests it contains. */
  afterGroup: number,
  upToGroup: number,
};
export type SealHead = Omit<TextRowOf<typeof HEAD>, "version">;

/** The place of a seal. Numbers continue over epochs. */
export type SealId = Pick<SealHead, "epoch" | "number">;
/** The place of a seal, and the hash that its object must have. */
export type SealRef = SealId & { readonly sha256: string };

/** The rows of one kind that one owner has in the seal. */
export const BLOCK = {
  owner: hex,
  kind: text,
  /** The last seal before with a block of the owner. */
  previousEpoch: orNull(number),
  previousNumber: orNull(number),
  /** Rows. Seals of earlier versions count entries of the owner. */
  count: number,
  /** When the first and the last were posted, opened or made. */
  firstAt: number,
  lastAt: number,
  /** Before compression. */
  contentLength: number,
  sha256: hex,
};
export const PLACE = { offset: number, length: number };
export type FooterBlock = TextRowOf<typeof BLOCK & typeof PLACE>;

/** Sorted by owner, then in the order of the kinds. */
export type Footer = { readonly head: SealHead; readonly blocks: readonly FooterBlock[] };

export function previousOf({ previousEpoch: epoch, previousNumber }: FooterBlock): SealId | null {
  return epoch === null || previousNumber === null ? null : { epoch, number: previousNumber };
}

export function encodeFooter({ head, blocks }: Footer): { content: string; sha256: string } {
  const proven = `${writeTable(HEAD, [{ version: VERSION, ...head }])}\n${writeTable(BLOCK, blocks)}`;
  const lengths = JSON.stringify(blocks.map(({ length }) => length));
  return { content: `${proven}\n${lengths}`, sha256: sha256(proven) };
}

/** An object has another content than the database states. */
export class SealDiffers extends SealMalformed {}

/** As JSON, with a comma. */
const LENGTH_CHARACTERS = 9;

function readHead(line: string): SealHead {
  const [{ version, ...head } = { version: 0 }] = readTable(HEAD, line);
  if (version !== VERSION || !("epoch" in head))
    throw new SealMalformed("is not a seal of this version");
  return head;
}

/** Throws `SealMalformed` unless the hash fits. JSON that others wrote is never parsed. */
export function readFooter(content: string, expected: string): Footer {
  const [first, second, third, more] = content.split("\n", 4);
  if (first === undefined || second === undefined || third === undefined || more !== undefined)
    throw new SealMalformed("a footer has three lines");
  const found = sha256(`${first}\n${second}`);
  if (found !== expected) throw new SealDiffers(`has the hash ${found} instead of ${expected}`);
  const head = readHead(first);
  const stated = readTable(BLOCK, second);
  // No hash covers the lengths.
  if (third.length > 2 + LENGTH_CHARACTERS * stated.length)
    throw new SealMalformed("has too many lengths");
  const lengths = readTable({ length: number }, `{"length":${third}}`);
  if (lengths.length !== stated.length) throw new SealMalformed("a block has no length");
  let offset = 0;
  const blocks = stated.map((block, place) => {
    const length = lengths[place]?.length ?? 0;
    offset += length;
    return { ...block, offset: offset - length, length };
  });
  return { head, blocks };
}

export function sha256(content: string): string {
  return createHash("sha256").update(content).digest("hex");
}
