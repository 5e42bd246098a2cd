/**
 * A sealed object: a closed range of the journal and the records that ended in it, as stored in R2.
 *
 *   magic | block of the 1st owner | … | block of the last owner | footer | sizes of the footer
 *
 * Blocks are sorted by owner, and each is compressed on its own, so a reader fetches the footer and
 * one range. The footer lists for each owner where the block is, what it hashes to and what it
 * contains. The seal's hash is that of its footer. So it covers all uncompressed content, and a
 * single block can be verified without the others. The footer also contains the hash of the
 * previous seal: the last hash vouches for every seal before it.
 */
import {
  type Block,
  type BlockEntries,
  type BlockTransfer,
  decodeBlock,
  decodeEntries,
  decodeProven,
  encodeBlock,
  type Side,
} from "./block.ts";
import { concat, equalBytes, SealMalformed, sha256 } from "./bytes.ts";
import { compress, decompress } from "./compress.ts";
import {
  decodeFooter,
  encodeFooter,
  type Footer,
  type OwnerBlock,
  type RecordZone,
  sameBlock,
  type SealHead,
  type SealId,
} from "./footer.ts";
import {
  MATCHES,
  type Owner,
  QUOTES,
  type Records,
  REQUESTS,
  type SealedTransfer,
} from "./records.ts";
import { encodeAmounts, encodeMarks } from "./summary.ts";

/** The version is the last character. */
const MAGIC = new TextEncoder().encode("RFQSEAL1");
const SIZES_BYTES = 8;

export type Seal = SealHead & Records & { readonly transfers: readonly SealedTransfer[] };

export type EncodedSeal = {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly sha256: string;
  readonly footer: Footer;
};

/** `links` names the seal before of each owner that has one. Tests compress in another way. */
export async function encodeSeal(
  seal: Seal,
  links: ReadonlyMap<Owner, SealId> = new Map(),
  compressed: typeof compress = compress,
): Promise<EncodedSeal> {
  const blocks: OwnerBlock[] = [];
  const parts: Uint8Array[] = [MAGIC];
  let offset = MAGIC.length;
  for (const [owner, block] of blocksOf(seal)) {
    const content = encodeBlock(block);
    const bytes = await compressed(content);
    blocks.push({
      owner,
      previous: links.get(owner) ?? null,
      offset,
      length: bytes.length,
      contentLength: content.length,
      sha256: sha256(content),
      ...summaryOf(block),
    });
    parts.push(bytes);
    offset += bytes.length;
  }
  const footer: Footer = { head: headOf(seal), counts: countsOf(seal), blocks };
  const content = encodeFooter(footer);
  const bytes = await compressed(content);
  const sizes = new DataView(new ArrayBuffer(SIZES_BYTES));
  sizes.setUint32(0, bytes.length);
  sizes.setUint32(4, content.length);
  return {
    bytes: concat([...parts, bytes, new Uint8Array(sizes.buffer)]),
    sha256: sha256(content),
    footer,
  };
}

/** Throws `SealMalformed` unless the object is complete and agrees with its footer. */
export async function decodeSeal(
  bytes: Uint8Array<ArrayBuffer>,
): Promise<{ seal: Seal; sha256: string; footer: Footer }> {
  if (bytes.length < MAGIC.length + SIZES_BYTES) throw new SealMalformed("ends too early");
  if (!equalBytes(bytes.subarray(0, MAGIC.length), MAGIC))
    throw new SealMalformed("is not a sealed object of this version");
  const { footer, sha256: hash, start } = await readFooter(bytes);
  const blocks = new Map<Owner, Block>();
  let offset = MAGIC.length;
  for (const one of footer.blocks) {
    if (one.offset !== offset) throw new SealMalformed("blocks do not follow each other");
    offset += one.length;
    const block = decodeBlock(await contentOf(bytes.slice(one.offset, offset), one));
    if (!sameBlock({ ...one, ...summaryOf(block) }, one))
      throw new SealMalformed("a block is not what its footer states");
    blocks.set(one.owner, block);
  }
  if (offset !== start) throw new SealMalformed("blocks do not end at the footer");
  const seal: Seal = { ...footer.head, ...joinBlocks(blocks) };
  requireSame(encodeFooter({ ...footer, counts: countsOf(seal) }), encodeFooter(footer), "counts");
  requireRange(seal);
  const again = blocksOf(seal);
  if (again.length !== blocks.size) throw new SealMalformed("a block belongs to no owner");
  for (const [owner, block] of again) {
    const stored = blocks.get(owner);
    if (stored === undefined) throw new SealMalformed("an owner has no block");
    requireSame(encodeBlock(block), encodeBlock(stored), "two blocks");
  }
  return { seal, sha256: hash, footer };
}

/** What a reader needs to open a block. */
export type BlockPlace = Pick<OwnerBlock, "offset" | "length" | "contentLength" | "sha256">;

/** One block of a footer that the database vouches for: its hash proves it. */
export async function openBlock(
  bytes: Uint8Array<ArrayBuffer>,
  stored: BlockPlace,
): Promise<Block> {
  return decodeProven(await contentOf(bytes, stored));
}

/** Its transfers alone. */
export async function openEntries(
  bytes: Uint8Array<ArrayBuffer>,
  stored: BlockPlace,
): Promise<BlockEntries> {
  return decodeEntries(await contentOf(bytes, stored));
}

async function contentOf(
  bytes: Uint8Array<ArrayBuffer>,
  { contentLength, sha256: stated }: BlockPlace,
): Promise<Uint8Array<ArrayBuffer>> {
  const content = await decompress(bytes, contentLength);
  if (sha256(content) !== stated)
    throw new SealMalformed("a block has another hash than its footer states");
  return content;
}

/** The footer of an object, from its last bytes, or how many of these are needed. */
export async function readFooterOf(
  end: Uint8Array<ArrayBuffer>,
): Promise<{ footer: Footer; sha256: string } | { needed: number }> {
  if (end.length < SIZES_BYTES) throw new SealMalformed("ends too early");
  const needed = footerLength(end) + SIZES_BYTES;
  return needed > end.length ? { needed } : readFooter(end);
}

/** As compressed. */
function footerLength(bytes: Uint8Array<ArrayBuffer>): number {
  return new DataView(bytes.buffer, bytes.byteOffset + bytes.length - SIZES_BYTES).getUint32(0);
}

async function readFooter(
  bytes: Uint8Array<ArrayBuffer>,
): Promise<{ footer: Footer; sha256: string; start: number }> {
  const sizes = new DataView(bytes.buffer, bytes.byteOffset + bytes.length - SIZES_BYTES);
  const start = bytes.length - SIZES_BYTES - footerLength(bytes);
  if (start < 0) throw new SealMalformed("the footer does not fit");
  const content = await decompress(
    bytes.slice(start, bytes.length - SIZES_BYTES),
    sizes.getUint32(4),
  );
  return { footer: decodeFooter(content), sha256: sha256(content), start };
}

function headOf(seal: SealHead): SealHead {
  const { epoch, number, previous, after, upTo, afterGroup, upToGroup } = seal;
  return { epoch, number, previous, after, upTo, afterGroup, upToGroup };
}

function countsOf(seal: Seal): Footer["counts"] {
  return {
    transfers: seal.transfers.length,
    requests: seal.requests.length,
    quotes: seal.quotes.length,
    matches: seal.matches.length,
  };
}

/** The owners that have a block in a seal with this content. */
export function ownersIn({ transfers, ...records }: Omit<Seal, keyof SealHead>): Set<Owner> {
  const found = new Set(transfers.flatMap(({ from, to }) => [from.owner, to.owner]));
  for (const row of records.requests) for (const owner of ownersOf(REQUESTS, row)) found.add(owner);
  for (const row of records.quotes) for (const owner of ownersOf(QUOTES, row)) found.add(owner);
  for (const row of records.matches) for (const owner of ownersOf(MATCHES, row)) found.add(owner);
  return found;
}

type Draft = { [Name in keyof Block]: Block[Name][number][] };

/** The block of each owner, sorted by owner. */
function blocksOf(seal: Seal): [Owner, Block][] {
  const drafts = new Map<Owner, Draft>();
  const of = (owner: Owner): Draft => {
    const known = drafts.get(owner);
    if (known !== undefined) return known;
    const draft: Draft = { transfers: [], requests: [], quotes: [], matches: [] };
    drafts.set(owner, draft);
    return draft;
  };
  for (const transfer of seal.transfers) {
    for (const owner of new Set([transfer.from.owner, transfer.to.owner]))
      of(owner).transfers.push(seenBy(owner, transfer));
  }
  for (const row of seal.requests)
    for (const owner of ownersOf(REQUESTS, row)) of(owner).requests.push(row);
  for (const row of seal.quotes)
    for (const owner of ownersOf(QUOTES, row)) of(owner).quotes.push(row);
  for (const row of seal.matches)
    for (const owner of ownersOf(MATCHES, row)) of(owner).matches.push(row);
  return [...drafts].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

function ownersOf(
  table: { readonly owners: readonly string[] },
  row: Readonly<Record<string, unknown>>,
): Set<Owner> {
  return new Set(table.owners.map((column) => String(row[column])));
}

function seenBy(owner: Owner, transfer: SealedTransfer): BlockTransfer {
  const { from, to, fromBalance, toBalance, ...shared } = transfer;
  return {
    ...shared,
    from: from.owner === owner ? { kind: from.kind, balance: fromBalance } : null,
    to: to.owner === owner ? { kind: to.kind, balance: toBalance } : null,
  };
}

/** The content of all blocks, each transfer and each record once. */
function joinBlocks(blocks: ReadonlyMap<Owner, Block>): Omit<Seal, keyof SealHead> {
  const halves = new Map<number, { shared: BlockTransfer; from?: Owned; to?: Owned }>();
  for (const [owner, block] of blocks) {
    for (const transfer of block.transfers) {
      const half = halves.get(transfer.transferId) ?? { shared: transfer };
      if (transfer.from !== null) half.from = { owner, ...transfer.from };
      if (transfer.to !== null) half.to = { owner, ...transfer.to };
      halves.set(transfer.transferId, half);
    }
  }
  const all = [...blocks.values()];
  return {
    transfers: [...halves.values()]
      .map(({ shared, from, to }) => {
        if (from === undefined || to === undefined)
          throw new SealMalformed("a transfer has one side only");
        return {
          ...shared,
          from: { owner: from.owner, kind: from.kind },
          to: { owner: to.owner, kind: to.kind },
          fromBalance: from.balance,
          toBalance: to.balance,
        };
      })
      .toSorted((a, b) => a.transferId - b.transferId),
    requests: unique(
      all.flatMap((block) => block.requests),
      (row) => row.request_id,
    ),
    quotes: unique(
      all.flatMap((block) => block.quotes),
      (row) => row.quote_id,
    ),
    matches: unique(
      all.flatMap((block) => block.matches),
      (row) => row.match_id,
    ),
  };
}

type Owned = NonNullable<Side> & { readonly owner: Owner };

function unique<Row>(rows: readonly Row[], idOf: (row: Row) => string): Row[] {
  const byId = new Map(rows.map((row) => [idOf(row), row]));
  return [...byId].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

const ASSET_ORDER = (a: string, b: string) => (a < b ? -1 : 1);

/** What a reader must know to skip the block. */
function summaryOf(
  block: Block,
): Omit<OwnerBlock, "owner" | "previous" | "offset" | "length" | "contentLength" | "sha256"> {
  const { transfers, requests, quotes, matches } = block;
  const entries = transfers.flatMap(({ transferId, from, to }) => [
    ...(from === null ? [] : [2 * transferId]),
    ...(to === null ? [] : [2 * transferId + 1]),
  ]);
  const times = transfers.map(({ at }) => at);
  const amounts = transfers.map(({ amount }) => amount).toSorted((a, b) => (a < b ? -1 : 1));
  const assets = [...new Set(transfers.map(({ asset }) => asset))].toSorted(ASSET_ORDER);
  return {
    entries: entries.length,
    firstEntry: least(entries),
    lastEntry: most(entries),
    firstAt: least(times),
    lastAt: most(times),
    smallest: amounts[0] ?? 0n,
    largest: amounts.at(-1) ?? 0n,
    reasons: transfers.reduce((set, { reason }) => set | (1 << reason), 0),
    assets,
    requests: zoneOf(requests.map((row) => row.opened_at)),
    quotes: zoneOf(quotes.map((row) => row.opened_at)),
    matches: zoneOf(matches.map((row) => row.at)),
    amounts: encodeAmounts(assets, transfers),
    requestMarks: encodeMarks([...requests, ...matches].map((row) => row.request_id)),
  };
}

function zoneOf(times: readonly number[]): RecordZone {
  return { count: times.length, firstAt: least(times), lastAt: most(times) };
}

function least(values: readonly number[]): number {
  return values.reduce((a, b) => Math.min(a, b), values[0] ?? 0);
}

function most(values: readonly number[]): number {
  return values.reduce((a, b) => Math.max(a, b), 0);
}

function requireSame(a: Uint8Array, b: Uint8Array, what: string): void {
  if (!equalBytes(a, b)) throw new SealMalformed(`${what} disagree`);
}

/** Transfers are in the stated range, in order, each once. */
function requireRange({ after, upTo, transfers }: Seal): void {
  let last = after;
  for (const { transferId } of transfers) {
    if (transferId <= last) throw new SealMalformed("transfers are out of order");
    last = transferId;
  }
  if (last > upTo) throw new SealMalformed("a transfer is outside the range");
}
