/** Counts what a soak has done. */

export class Tally {
  readonly #counts = new Map<string, Map<string, number>>();
  readonly #money = new Map<string, bigint>();
  /** Responses that no rule of the interface explains. One of them fails the run. */
  readonly odd: string[] = [];

  count(group: "operation" | "fault" | "refused" | "lost", name: string): void {
    const names = this.#counts.get(group) ?? new Map<string, number>();
    this.#counts.set(group, names);
    names.set(name, (names.get(name) ?? 0) + 1);
  }

  moved(how: "deposited" | "traded" | "withdrawn", asset: string, amount: bigint): void {
    const key = `${how} ${asset}`;
    this.#money.set(key, (this.#money.get(key) ?? 0n) + amount);
  }

  total(group: string): number {
    return [...(this.#counts.get(group)?.values() ?? [])].reduce((sum, n) => sum + n, 0);
  }

  /** `reorg 5, kill 3`: the most frequent first. */
  list(group: string): string {
    const names = [...(this.#counts.get(group) ?? [])].toSorted((a, b) => b[1] - a[1]);
    return names.map(([name, n]) => `${name} ${n}`).join(", ") || "none";
  }

  money(how: "deposited" | "traded" | "withdrawn", asset: string): bigint {
    return this.#money.get(`${how} ${asset}`) ?? 0n;
  }
}
