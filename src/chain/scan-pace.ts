/**
 * Chooses how many blocks one range has, so that its logs fit in a Worker's 128 MB at any traffic
 * of the chain. It starts small, because an object that ran out of memory has forgotten the rest.
 */

const FIRST_BLOCKS = 16;
/** About 10 MB while they are decoded, for each endpoint that is read. */
const LOGS_PER_RANGE = 5_000;

export class ScanPace {
  #blocks = FIRST_BLOCKS;

  /** Blocks of the next range, at most `max`. */
  limit(max: number): number {
    return Math.min(max, this.#blocks);
  }

  /** A range was read. The next one is at most twice as long. */
  read({ blocks, logs }: { readonly blocks: number; readonly logs: number }): void {
    const fitting = Math.max(1, Math.floor((LOGS_PER_RANGE * blocks) / Math.max(1, logs)));
    const longer = blocks >= this.#blocks ? blocks * 2 : this.#blocks;
    this.#blocks = Math.min(fitting, longer);
  }

  /** A round failed, perhaps because its ranges were too long for the provider. */
  failed(): void {
    this.#blocks = Math.max(1, Math.floor(this.#blocks / 2));
  }
}
