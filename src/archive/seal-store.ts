/** Seals as objects in R2. An object is written once and never changed or deleted. */
import { decodeSeal, type EncodedSeal, type Seal } from "./seal-format.ts";
import type { Footer, SealHead } from "./footer.ts";

export type SealBucket = Pick<R2Bucket, "get" | "put">;

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
export function keyOf({ epoch, number }: Pick<SealHead, "epoch" | "number">): string {
  return `journal/${epoch}/${number}`;
}

/** Leaves an object that exists as it is. The caller reads back what is there. */
export async function putIfAbsent(
  bucket: SealBucket,
  head: SealHead,
  { bytes, sha256 }: EncodedSeal,
): Promise<void> {
  await bucket.put(keyOf(head), bytes, {
    onlyIf: new Headers({ "if-none-match": "*" }),
    customMetadata: { sha256 },
  });
}

/** Throws `SealMissing` or `SealMalformed`. */
export async function readSeal(
  bucket: SealBucket,
  head: Pick<SealHead, "epoch" | "number">,
): Promise<StoredSeal> {
  const object = await bucket.get(keyOf(head));
  if (object === null) throw new SealMissing(keyOf(head));
  const bytes = new Uint8Array(await object.arrayBuffer());
  return { ...(await decodeSeal(bytes)), bytes: bytes.length };
}
