/** Writes and reads the numbers and texts of a sealed object. */

import { createHash } from "node:crypto";

/**
 * A part of an object has far less before compression, and so has an object after it: a quote with
 * both transfers takes some 50 bytes. Who can write to the bucket must not exhaust a Worker's
 * memory.
 */
export const MAX_BYTES = 32_000_000;

/** The bytes are not a sealed object as this service writes it. */
export class SealMalformed extends Error {
  constructor(what: string) {
    super(`malformed seal: ${what}`);
    this.name = "SealMalformed";
  }
}

const FIRST_CAPACITY = 1_024;

export class ByteWriter {
  #bytes = new Uint8Array(FIRST_CAPACITY);
  #length = 0;

  finish(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  raw(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  /** An unsigned integer: seven bits a byte, the lowest first. */
  uint(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`cannot write ${value}`);
    this.#reserve(8);
    let rest = value;
    while (rest >= 128) {
      this.#bytes[this.#length++] = (rest % 128) + 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
  }

  int(value: number): void {
    if (Math.abs(value) < SMALL) this.uint(zigzag(value));
    else this.bigint(BigInt(value));
  }

  /** A signed integer of any size. Small magnitudes take few bytes, negative ones too. */
  bigint(value: bigint): void {
    const small = Number(value);
    if (Math.abs(small) < SMALL) return this.uint(zigzag(small));
    let rest = value < 0n ? -2n * value - 1n : 2n * value;
    while (rest > BigInt(Number.MAX_SAFE_INTEGER)) {
      this.#reserve(1);
      this.#bytes[this.#length++] = Number(rest & 127n) + 128;
      rest >>= 7n;
    }
    this.uint(Number(rest));
  }

  text(value: string): void {
    const bytes = new TextEncoder().encode(value);
    this.uint(bytes.length);
    this.raw(bytes);
  }

  #reserve(more: number): void {
    if (this.#length + more <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(2 * this.#bytes.length, this.#length + more));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}

/**
 * Integers below this, and the doubled ones that are stored, are exact as numbers, which are read
 * and written many times faster than bigints. So are up to seven bytes of seven bits.
 */
const SMALL = 2 ** 48;
const SMALL_BYTES = 7;

/** Numbers alternate between the signs: 0, -1, 1, -2, … */
function zigzag(value: number): number {
  return value < 0 ? -2 * value - 1 : 2 * value;
}

function unzigzag(value: number): number {
  return value % 2 === 1 ? -(value + 1) / 2 : value / 2;
}

/** An amount has at most 256 bits, and one more carries the sign. */
const MAX_BITS = 257n;

export class ByteReader {
  readonly #bytes: Uint8Array;
  #position = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get ended(): boolean {
    return this.#position === this.#bytes.length;
  }

  raw(length: number): Uint8Array {
    if (length > this.#bytes.length - this.#position) throw new SealMalformed("ends too early");
    this.#position += length;
    return this.#bytes.subarray(this.#position - length, this.#position);
  }

  uint(): number {
    let value = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = this.#byte();
      value += (byte % 128) * unit;
      if (value > Number.MAX_SAFE_INTEGER) throw new SealMalformed("a number is too large");
      if (byte < 128) return value;
    }
  }

  int(): number {
    const value = this.#small() ?? Number(this.#large());
    if (!Number.isSafeInteger(value)) throw new SealMalformed("a number is too large");
    return value;
  }

  bigint(): bigint {
    const value = this.#small();
    return value === undefined ? this.#large() : BigInt(value);
  }

  /** A signed integer of few bytes. Otherwise reads nothing. */
  #small(): number | undefined {
    let value = 0;
    let unit = 1;
    for (let place = 0; place < SMALL_BYTES; place++) {
      const byte = this.#bytes[this.#position + place];
      if (byte === undefined) return undefined;
      value += (byte % 128) * unit;
      if (byte < 128) {
        this.#position += place + 1;
        return unzigzag(value);
      }
      unit *= 128;
    }
    return undefined;
  }

  #large(): bigint {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#byte();
      value |= BigInt(byte % 128) << shift;
      if (shift > MAX_BITS) throw new SealMalformed("an amount is too large");
      if (byte < 128) return value & 1n ? -((value + 1n) / 2n) : value / 2n;
    }
  }

  text(): string {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(
        this.raw(this.uint()),
      );
    } catch (error) {
      if (error instanceof SealMalformed) throw error;
      throw new SealMalformed("a text is not UTF-8");
    }
  }

  /** The number of items that follow. Each takes at least a byte, which bounds the memory. */
  count(): number {
    const count = this.uint();
    if (count > this.#bytes.length - this.#position) throw new SealMalformed("ends too early");
    return count;
  }

  #byte(): number {
    const byte = this.#bytes[this.#position++];
    if (byte === undefined) throw new SealMalformed("ends too early");
    return byte;
  }
}

/**
 * Throws unless the content that was read, written again, gives the same bytes. So everything that
 * this service would not write is refused.
 */
export function requireCanonical(
  reader: ByteReader,
  bytes: Uint8Array,
  write: () => Uint8Array,
): void {
  if (!reader.ended || !equalBytes(writeOrNothing(write), bytes))
    throw new SealMalformed("not written as this service writes it");
}

/** Values that cannot be written are none that this service wrote. */
function writeOrNothing(write: () => Uint8Array): Uint8Array {
  try {
    return write();
  } catch (error) {
    if (error instanceof RangeError) return new Uint8Array();
    throw error;
  }
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

export function toHex(bytes: Uint8Array): string {
  let hex = "";
  for (const byte of bytes) hex += HEX[byte];
  return hex;
}

export function fromHex(hex: string): Uint8Array<ArrayBuffer> {
  if (!/^([0-9a-f]{2})*$/.test(hex)) throw new RangeError(`not lower-case hexadecimal: ${hex}`);
  const bytes = new Uint8Array(hex.length / 2);
  for (let place = 0; place < bytes.length; place++)
    bytes[place] = Number.parseInt(hex.slice(2 * place, 2 * place + 2), 16);
  return bytes;
}

export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let position = 0;
  for (const part of parts) {
    whole.set(part, position);
    position += part.length;
  }
  return whole;
}

export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, index) => byte === b[index]);
}

export function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
