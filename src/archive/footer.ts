/** The footer of a sealed object: its head, and where each owner's block is. */
import {
  ByteReader,
  ByteWriter,
  equalBytes,
  fromHex,
  requireCanonical,
  SealMalformed,
  toHex,
} from "./bytes.ts";
import type { Owner } from "./records.ts";

/** The hash that the first seal names as its previous one. */
export const GENESIS = "00".repeat(32);

/** The place of a seal in its chain, and the range that it covers. */
export type SealHead = {
  /** Rises with every restore of the database. Readers ignore seals of epochs that were lost. */
  readonly epoch: number;
  /** Counts from 1 over all epochs. */
  readonly number: number;
  /** The hash of the previous seal, or GENESIS. */
  readonly previous: string;
  /** The range of transfers `after < id <= upTo`. Both are equal if there is none. */
  readonly after: number;
  readonly upTo: number;
  /** The range of commit groups whose ended requests it contains. */
  readonly afterGroup: number;
  readonly upToGroup: number;
};

/** The place of a seal. Numbers continue over epochs. */
export type SealId = Pick<SealHead, "epoch" | "number">;

export type OwnerBlock = {
  readonly owner: Owner;
  /** The last seal before with a block of the owner, or null. */
  readonly previous: SealId | null;
  readonly offset: number;
  readonly length: number;
  /** Before compression. */
  readonly contentLength: number;
  /** Of the content before compression. */
  readonly sha256: string;
  /** Entries of the owner, from the first to the last `entry_id`. */
  readonly entries: number;
  readonly firstEntry: number;
  readonly lastEntry: number;
  readonly firstAt: number;
  readonly lastAt: number;
  readonly smallest: bigint;
  readonly largest: bigint;
  /** Bit `n` is set if a transfer has the reason with the code `n`. */
  readonly reasons: number;
  readonly assets: readonly string[];
  readonly requests: RecordZone;
  readonly quotes: RecordZone;
  readonly matches: RecordZone;
  /** Written by summary.ts: the amounts of each of `assets`. */
  readonly amounts: Uint8Array;
  /** Written by summary.ts: marks of the requests of the block's requests and matches. */
  readonly requestMarks: Uint8Array;
};

/** Records of one kind: how many, and when the first and the last were opened or made. */
export type RecordZone = {
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
};

export type Footer = {
  readonly head: SealHead;
  readonly counts: {
    readonly transfers: number;
    readonly requests: number;
    readonly quotes: number;
    readonly matches: number;
  };
  /** Sorted by owner. */
  readonly blocks: readonly OwnerBlock[];
};

const HASH_BYTES = 32;

export function encodeFooter({ head, counts, blocks }: Footer): Uint8Array<ArrayBuffer> {
  const writer = new ByteWriter();
  writer.uint(head.epoch);
  writer.uint(head.number);
  writer.raw(fromHex(head.previous));
  for (const value of [head.after, head.upTo, head.afterGroup, head.upToGroup]) writer.uint(value);
  for (const value of [counts.transfers, counts.requests, counts.quotes, counts.matches])
    writer.uint(value);
  const assets = [...new Set(blocks.flatMap((block) => block.assets))];
  const positions = new Map(assets.map((asset, position) => [asset, position]));
  writer.uint(assets.length);
  assets.forEach((asset) => writer.text(asset));
  writer.uint(blocks.length);
  for (const block of blocks) writeBlock(writer, block, positions);
  return writer.finish();
}

function writeBlock(
  writer: ByteWriter,
  block: OwnerBlock,
  positions: ReadonlyMap<string, number>,
): void {
  writeBytes(writer, fromHex(block.owner));
  writer.raw(fromHex(block.sha256));
  writer.uint(block.previous?.epoch ?? 0);
  writer.uint(block.previous?.number ?? 0);
  for (const value of numbersOf(block)) writer.uint(value);
  writer.bigint(block.smallest);
  writer.bigint(block.largest - block.smallest);
  writer.uint(block.assets.length);
  for (const asset of block.assets) writer.uint(positions.get(asset) ?? 0);
  writeBytes(writer, block.amounts);
  writeBytes(writer, block.requestMarks);
}

function writeBytes(writer: ByteWriter, bytes: Uint8Array): void {
  writer.uint(bytes.length);
  writer.raw(bytes);
}

/**
 * Whether two seals have the same content. Another version of the runtime may compress it to other
 * bytes, so the blocks may be elsewhere.
 */
export function sameContent(a: Footer, b: Footer): boolean {
  return equalBytes(encodeFooter(withoutPlaces(a)), encodeFooter(withoutPlaces(b)));
}

function withoutPlaces({ blocks, ...footer }: Footer): Footer {
  return { ...footer, blocks: blocks.map((block) => ({ ...block, offset: 0, length: 0 })) };
}

/** Whether the two blocks of one footer state the same. */
export function sameBlock(a: OwnerBlock, b: OwnerBlock): boolean {
  const positions = new Map([...a.assets, ...b.assets].map((asset, place) => [asset, place]));
  const [one, other] = [a, b].map((block) => {
    const writer = new ByteWriter();
    writeBlock(writer, block, positions);
    return writer.finish();
  });
  return one !== undefined && other !== undefined && equalBytes(one, other);
}

/** In the order in which they are written, the last of each range as a difference. */
function numbersOf(block: OwnerBlock): number[] {
  return [
    block.offset,
    block.length,
    block.contentLength,
    block.entries,
    block.firstEntry,
    block.lastEntry - block.firstEntry,
    block.firstAt,
    block.lastAt - block.firstAt,
    block.reasons,
    ...[block.requests, block.quotes, block.matches].flatMap(({ count, firstAt, lastAt }) => [
      count,
      firstAt,
      lastAt - firstAt,
    ]),
  ];
}

/** Throws `SealMalformed` unless the bytes are exactly those that `encodeFooter` writes. */
export function decodeFooter(bytes: Uint8Array): Footer {
  const reader = new ByteReader(bytes);
  const head: SealHead = {
    epoch: reader.uint(),
    number: reader.uint(),
    previous: toHex(reader.raw(HASH_BYTES)),
    after: reader.uint(),
    upTo: reader.uint(),
    afterGroup: reader.uint(),
    upToGroup: reader.uint(),
  };
  const counts = {
    transfers: reader.uint(),
    requests: reader.uint(),
    quotes: reader.uint(),
    matches: reader.uint(),
  };
  const assets = Array.from({ length: reader.count() }, () => reader.text());
  const blocks = Array.from({ length: reader.count() }, () => readBlock(reader, assets));
  const footer: Footer = { head, counts, blocks };
  requireCanonical(reader, bytes, () => encodeFooter(footer));
  return footer;
}

function readBlock(reader: ByteReader, assets: readonly string[]): OwnerBlock {
  const owner = toHex(readBytes(reader));
  const sha256 = toHex(reader.raw(HASH_BYTES));
  const before = { epoch: reader.uint(), number: reader.uint() };
  const offset = reader.uint();
  const length = reader.uint();
  const contentLength = reader.uint();
  const entries = reader.uint();
  const firstEntry = reader.uint();
  const lastEntry = firstEntry + reader.uint();
  const firstAt = reader.uint();
  const lastAt = firstAt + reader.uint();
  const reasons = reader.uint();
  const requests = readZone(reader);
  const quotes = readZone(reader);
  const matches = readZone(reader);
  const smallest = reader.bigint();
  const largest = smallest + reader.bigint();
  const own = Array.from({ length: reader.count() }, () => {
    const asset = assets[reader.uint()];
    if (asset === undefined) throw new SealMalformed("an asset is not in its list");
    return asset;
  });
  const amounts = readBytes(reader);
  const requestMarks = readBytes(reader);
  return {
    owner,
    previous: before.number === 0 ? null : before,
    offset,
    length,
    contentLength,
    sha256,
    entries,
    firstEntry,
    lastEntry,
    firstAt,
    lastAt,
    smallest,
    largest,
    reasons,
    assets: own,
    requests,
    quotes,
    matches,
    amounts,
    requestMarks,
  };
}

function readBytes(reader: ByteReader): Uint8Array {
  return reader.raw(reader.uint());
}

function readZone(reader: ByteReader): RecordZone {
  const count = reader.uint();
  const firstAt = reader.uint();
  return { count, firstAt, lastAt: firstAt + reader.uint() };
}
