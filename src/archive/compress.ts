/** Raw DEFLATE. */
import { deflateRawSync, inflateRawSync } from "node:zlib";
import { SealMalformed } from "./column-text.ts";

/** Far more than any part or object has, so that a forged one cannot exhaust the memory. */
export const MAX_BYTES = 32_000_000;

/** workerd refuses some large contents that are exactly as long as the limit. */
const SLACK_BYTES = 1_000_000;

export function compress(content: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(deflateRawSync(content));
}

/** Reads at most `length` bytes, because the input may claim to contain more. */
export function decompress(bytes: Uint8Array, length: number): string {
  if (length > MAX_BYTES) throw new SealMalformed("is too large");
  const content = inflate(bytes, length);
  if (content.length !== length) throw new SealMalformed("has another length than is stated");
  return content.toString();
}

function inflate(bytes: Uint8Array, length: number): Buffer {
  try {
    return inflateRawSync(bytes, { maxOutputLength: length + SLACK_BYTES });
  } catch {
    throw new SealMalformed("cannot be decompressed");
  }
}
