/** Serves users in turn. A user's next item waits for at most one item of each other user. */
export class FairQueue<Item extends { readonly userId: string }> {
  /** The items of each user, oldest first. The user whose turn is next comes first. */
  readonly #byUser = new Map<string, Item[]>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(item: Item): void {
    const items = this.#byUser.get(item.userId);
    if (items === undefined) this.#byUser.set(item.userId, [item]);
    else items.push(item);
    this.#size += 1;
  }

  /** Puts items that were taken before back in front of their users' other items. */
  putBack(taken: readonly Item[]): void {
    for (const item of taken.toReversed()) {
      const items = this.#byUser.get(item.userId);
      if (items === undefined) this.#byUser.set(item.userId, [item]);
      else items.unshift(item);
    }
    this.#size += taken.length;
  }

  /** Keeps the items that fit and removes all others. */
  keep(fits: (item: Item) => boolean): void {
    this.#size = 0;
    for (const [userId, items] of this.#byUser) {
      const kept = items.filter(fits);
      if (kept.length === 0) this.#byUser.delete(userId);
      else this.#byUser.set(userId, kept);
      this.#size += kept.length;
    }
  }

  /** Takes items, one of each user per round, until they weigh `max`. The last may exceed it. */
  take(max: number, weightOf: (item: Item) => number = () => 1): Item[] {
    const taken: Item[] = [];
    let weight = 0;
    for (const [userId, items] of this.#byUser) {
      if (weight >= max) break;
      const item = items.shift();
      if (item !== undefined) {
        taken.push(item);
        weight += weightOf(item);
      }
      this.#byUser.delete(userId);
      // The loop visits a user who is set again once more, after all others.
      if (items.length > 0) this.#byUser.set(userId, items);
    }
    this.#size -= taken.length;
    return taken;
  }
}
