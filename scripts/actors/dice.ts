/**
 * Random choices that a seed repeats. Each user has its own stream, so their order does not matter.
 */
export class Dice {
  #state: number;

  constructor(seed: string) {
    // FNV-1a gives similar seeds very different states.
    let hash = 0x811c9dc5;
    for (const char of seed) hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), 0x01000193);
    this.#state = hash >>> 0;
  }

  /** A number from 0 to below 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `low` to `high`, both inclusive. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(list: readonly T[]): T {
    const [first] = list;
    if (first === undefined) throw new Error("nothing to pick from");
    return list[Math.floor(this.next() * list.length)] ?? first;
  }

  /** One of the names, with the probability of its weight. */
  weighted<Name extends string>(weights: Readonly<Record<Name, number>>): Name {
    const names = Object.keys(weights) as Name[];
    let left = this.next() * names.reduce((sum, name) => sum + weights[name], 0);
    for (const name of names) {
      left -= weights[name];
      if (left < 0) return name;
    }
    return this.pick(names);
  }

  /** A part of the amount, at least 1. */
  part(amount: bigint): bigint {
    const part = (amount * BigInt(this.between(1, 1_000))) / 1_000n;
    return part > 0n ? part : 1n;
  }

  hex(bytes: number): `0x${string}` {
    return `0x${Array.from({ length: bytes }, () => this.between(0, 255).toString(16).padStart(2, "0")).join("")}`;
  }
}
