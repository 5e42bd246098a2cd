/** Raw DEFLATE by the platform's streams. */
import { concat, MAX_BYTES, SealMalformed } from "./bytes.ts";

export async function compress(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads at most `length` bytes, because the input may claim to contain more. */
export async function decompress(
  bytes: Uint8Array<ArrayBuffer>,
  length: number,
): Promise<Uint8Array<ArrayBuffer>> {
  if (length > MAX_BYTES) throw new SealMalformed("is too large");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const parts: Uint8Array[] = [];
  let read = 0;
  try {
    for await (const part of stream) {
      read += part.length;
      if (read > length) break;
      parts.push(part);
    }
  } catch {
    throw new SealMalformed("cannot be decompressed");
  }
  if (read !== length) throw new SealMalformed("has another length than its footer states");
  return concat(parts);
}
