/** Seals as objects in R2. An object is written once and never changed or deleted. */
import { type OnceBucket, putOnce } from "../platform/put-once.ts";
import { SealMalformed } from "./column-text.ts";
import { MAX_BYTES } from "./compress.ts";
import {
  type FooterBlock,
  type Footer,
  readFooter,
  type SealHead,
  type SealId,
  type SealRef,
} from "./footer.ts";
import { decodeSeal, type EncodedSeal, openFooter, type Seal } from "./seal-format.ts";

export type SealBucket = OnceBucket & Pick<R2Bucket, "get">;

/** The object of a seal is not there. */
export class SealMissing extends Error {
  constructor(key: string) {
    super(`the archive has no object ${key}`);
    this.name = "SealMissing";
  }
}

export type StoredSeal = {
  readonly seal: Seal;
  readonly footer: Footer;
  readonly sha256: string;
  readonly bytes: number;
};

/** The epoch is part of the key, so a seal of a lost epoch is never overwritten. */
export function keyOf({ epoch, number }: SealId): string {
  return `journal/${epoch}/${number}`;
}

/** Leaves an object that exists as it is. The caller reads back what is there. */
export async function putIfAbsent(
  bucket: SealBucket,
  head: SealHead,
  { bytes, sha256 }: EncodedSeal,
): Promise<void> {
  await putOnce(bucket, keyOf(head), bytes, { customMetadata: { sha256 } });
}

/** Throws `SealMissing` or `SealMalformed`. */
export async function readSeal(
  bucket: SealBucket,
  { epoch, number, sha256 }: SealRef,
): Promise<StoredSeal> {
  const object = await bucket.get(keyOf({ epoch, number }));
  if (object === null) throw new SealMissing(keyOf({ epoch, number }));
  if (object.size > MAX_BYTES) throw new SealMalformed("is too large");
  const bytes = new Uint8Array(await object.arrayBuffer());
  return { ...decodeSeal(bytes, sha256), sha256, bytes: bytes.length };
}

/** As `readSeal`. Returns what is wrong with the object instead of throwing it. */
export async function tryReadSeal(
  bucket: SealBucket,
  seal: SealRef,
): Promise<StoredSeal | { readonly wrong: string }> {
  try {
    return await readSeal(bucket, seal);
  } catch (error) {
    if (error instanceof SealMalformed || error instanceof SealMissing)
      return { wrong: error.message };
    throw error;
  }
}

/** Most footers are smaller. */
const FOOTER_BYTES = 65_536;

export async function readFooterAt(
  bucket: Pick<R2Bucket, "get">,
  { sha256, ...id }: SealRef,
): Promise<Footer> {
  for (let suffix = FOOTER_BYTES; ;) {
    const read = openFooter(await readBytes(bucket, id, { suffix }));
    if (!("needed" in read)) return readFooter(read.content, sha256);
    if (read.needed <= suffix || read.needed > MAX_BYTES)
      throw new SealMalformed("the footer does not fit");
    suffix = read.needed;
  }
}

/** The bytes of a block. Its hash is verified when it is opened. */
export function readBlock(
  bucket: Pick<R2Bucket, "get">,
  id: SealId,
  { offset, length }: FooterBlock,
): Promise<Uint8Array<ArrayBuffer>> {
  return readBytes(bucket, id, { offset, length });
}

async function readBytes(
  bucket: Pick<R2Bucket, "get">,
  id: SealId,
  range: R2Range,
): Promise<Uint8Array<ArrayBuffer>> {
  const object = await bucket.get(keyOf(id), { range });
  if (object === null) throw new SealMissing(keyOf(id));
  return new Uint8Array(await object.arrayBuffer());
}
