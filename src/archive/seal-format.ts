/**
 * A sealed object: a closed range of the journal and the records that ended in it, as stored in R2.
 *
 *   block | … | block | footer | sizes of the footer
 *
 * A block has the rows of one kind that one owner's history contains, as columns (column-text.ts),
 * and is compressed on its own. So a reader fetches the footer and the blocks that it needs: a page
 * of the ledger does not read quotes. A row of two owners is in a block of each.
 *
 * The footer (footer.ts) lists for each block what it hashes to. It also contains the hash of the
 * previous seal: the last hash vouches for every seal before it. Every reader knows the hash from
 * the database, or because it has encoded the same content, and compares it before it parses
 * anything. So nobody who can only write to the bucket reaches the parser.
 */
import { SealMalformed, readTable, writeTable } from "./column-text.ts";
import { compress, decompress } from "./compress.ts";
import {
  encodeFooter,
  type Footer,
  type FooterBlock,
  readFooter,
  type SealHead,
  type SealId,
  sha256,
} from "./footer.ts";
import {
  type Content,
  idOf,
  type Kind,
  KINDS,
  type Owner,
  ownersOf,
  type SealedRow,
  TABLES,
} from "./sealed-columns.ts";

const SIZES_BYTES = 8;

export type Seal = SealHead & Content;

export type EncodedSeal = {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly sha256: string;
  readonly footer: Footer;
};

/** `links` names the seal before of each owner that has one. Tests compress in another way. */
export function encodeSeal(
  seal: Seal,
  links: ReadonlyMap<Owner, SealId> = new Map(),
  compressed: typeof compress = compress,
): EncodedSeal {
  const { transfers, requests, quotes, matches, ...head } = seal;
  const rows: ByOwner = {
    transfers: byOwner("transfers", transfers),
    requests: byOwner("requests", requests),
    quotes: byOwner("quotes", quotes),
    matches: byOwner("matches", matches),
  };
  const blocks: FooterBlock[] = [];
  const bytes: Uint8Array[] = [];
  let offset = 0;
  for (const owner of [...ownersIn(seal)].toSorted()) {
    const previous = links.get(owner);
    for (const kind of KINDS) {
      const own = rows[kind].get(owner);
      if (own === undefined) continue;
      const json = writeTable(TABLES[kind].columns, own);
      const block = compressed(json);
      blocks.push({
        owner,
        kind,
        previousEpoch: previous?.epoch ?? null,
        previousNumber: previous?.number ?? null,
        count: own.length,
        ...spanOf(own),
        contentLength: Buffer.byteLength(json),
        sha256: sha256(json),
        offset,
        length: block.length,
      });
      bytes.push(block);
      offset += block.length;
    }
  }
  const footer = { head, blocks };
  const { content, sha256: hash } = encodeFooter(footer);
  const end = compressed(content);
  const sizes = Buffer.alloc(SIZES_BYTES);
  sizes.writeUInt32BE(end.length, 0);
  sizes.writeUInt32BE(Buffer.byteLength(content), 4);
  return { bytes: new Uint8Array(Buffer.concat([...bytes, end, sizes])), sha256: hash, footer };
}

/** Throws `SealMalformed` unless the object is complete and has this hash. */
export function decodeSeal(bytes: Uint8Array, expected: string): { seal: Seal; footer: Footer } {
  const opened = openFooter(bytes);
  if ("needed" in opened) throw new SealMalformed("the footer does not fit");
  const footer = readFooter(opened.content, expected);
  const last = footer.blocks.at(-1);
  if ((last === undefined ? 0 : last.offset + last.length) !== opened.start)
    throw new SealMalformed("blocks do not end at the footer");
  const rowsOf = <K extends Kind>(kind: K): SealedRow<K>[] => {
    const rows = footer.blocks
      .filter((block) => block.kind === kind)
      .flatMap((block) =>
        openBlock(kind, bytes.subarray(block.offset, block.offset + block.length), block),
      );
    // A row of two owners is in two blocks.
    const byId = new Map(rows.map((row) => [idOf(kind, row), row]));
    return [...byId].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  };
  const transfers = rowsOf("transfers");
  const [first, newest] = [transfers[0], transfers.at(-1)];
  const { after, upTo } = footer.head;
  if ((first?.transfer_id ?? upTo + 1) <= after || (newest?.transfer_id ?? upTo) > upTo)
    throw new SealMalformed("a transfer is outside the range");
  const seal = {
    ...footer.head,
    transfers,
    requests: rowsOf("requests"),
    quotes: rowsOf("quotes"),
    matches: rowsOf("matches"),
  };
  return { seal, footer };
}

/** Throws `SealMalformed` unless the bytes are the block that a proven footer lists. */
export function openBlock<K extends Kind>(
  kind: K,
  bytes: Uint8Array,
  { owner, contentLength, sha256: stated }: Pick<FooterBlock, "owner" | "contentLength" | "sha256">,
): SealedRow<K>[] {
  const json = decompress(bytes, contentLength);
  if (sha256(json) !== stated)
    throw new SealMalformed("a block has another hash than its footer states");
  const rows = readTable<(typeof TABLES)[K]["columns"]>(TABLES[kind].columns, json);
  rows.forEach((row, place) => {
    const before = rows[place - 1];
    if (before !== undefined && idOf(kind, before) >= idOf(kind, row))
      throw new SealMalformed(`${kind} are out of order`);
    if (!ownersOf(kind, row).has(owner)) throw new SealMalformed("a row is not the owner's");
  });
  return rows;
}

/** The footer of an object as text, from its last bytes, or how many of these are needed. */
export function openFooter(
  end: Uint8Array,
): { readonly content: string; readonly start: number } | { readonly needed: number } {
  if (end.length < SIZES_BYTES) throw new SealMalformed("ends too early");
  const sizes = new DataView(end.buffer, end.byteOffset + end.length - SIZES_BYTES);
  const start = end.length - SIZES_BYTES - sizes.getUint32(0);
  if (start < 0) return { needed: end.length - start };
  const content = decompress(end.subarray(start, end.length - SIZES_BYTES), sizes.getUint32(4));
  return { content, start };
}

/** The owners that have a block in a seal with this content. */
export function ownersIn(content: Content): Set<Owner> {
  return new Set(KINDS.flatMap((kind) => content[kind].flatMap((row) => [...ownersOf(kind, row)])));
}

type ByOwner = { readonly [K in Kind]: ReadonlyMap<Owner, readonly SealedRow<K>[]> };

function byOwner<K extends Kind>(kind: K, rows: readonly SealedRow<K>[]) {
  const found = new Map<Owner, SealedRow<K>[]>();
  for (const row of rows)
    for (const owner of ownersOf(kind, row)) {
      const own = found.get(owner);
      if (own === undefined) found.set(owner, [row]);
      else own.push(row);
    }
  return found;
}

/** When the first and the last of the rows were posted, opened or made. */
function spanOf(rows: readonly SealedRow<Kind>[]): Pick<FooterBlock, "firstAt" | "lastAt"> {
  const times = rows.map((row) => ("opened_at" in row ? row.opened_at : row.at));
  return {
    firstAt: times.reduce((a, b) => Math.min(a, b)),
    lastAt: times.reduce((a, b) => Math.max(a, b)),
  };
}
