/**
 * Takes the place of src/archive/compress.ts, whose streams would settle in real time. The loader
 * hook puts it there.
 */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { SealMalformed } from "../../src/archive/bytes.ts";

type Bytes = Uint8Array<ArrayBuffer>;

export async function compress(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(deflateRawSync(bytes));
}

export async function decompress(bytes: Bytes, length: number): Promise<Bytes> {
  const content = inflated(bytes);
  if (content.length !== length)
    throw new SealMalformed("has another length than its footer states");
  return content;
}

function inflated(bytes: Bytes): Bytes {
  try {
    return new Uint8Array(inflateRawSync(bytes));
  } catch {
    throw new SealMalformed("cannot be decompressed");
  }
}
