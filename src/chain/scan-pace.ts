/**
 * Chooses how many blocks one range has, so that its logs fit in a Worker's 128 MB at any traffic
 * of the chain. It starts small, because an object that ran out of memory has forgotten the rest.
 */

const FIRST_BLOCKS = 16;
/** About 10 MB while they are decoded, for each endpoint that is read. */
const LOGS_PER_RANGE = 5_000;

/** Ranges before longer ones are tried again than a provider has accepted. */
const RANGES_UNTIL_LONGER = 100;

export class ScanPace {
  #blocks = FIRST_BLOCKS;
  #untilLonger = 0;

  /** Blocks of the next range, at most `max`. */
  limit(max: number): number {
    return Math.min(max, this.#blocks);
  }

  /**
   * A range was read, in requests of at most `fits` blocks. The next is at most twice as long, and
   * no longer than those if the provider refused more.
   */
  read({ blocks, logs, fits }: { blocks: number; logs: number; fits: number }): void {
    const fitting = Math.max(1, Math.floor((LOGS_PER_RANGE * blocks) / Math.max(1, logs)));
    if (fits < blocks) this.#untilLonger = RANGES_UNTIL_LONGER;
    const longer = this.#untilLonger === 0 && blocks >= this.#blocks ? blocks * 2 : this.#blocks;
    this.#untilLonger = Math.max(0, this.#untilLonger - 1);
    this.#blocks = Math.min(fitting, fits < blocks ? fits : longer);
  }

  /** A round failed, perhaps because its ranges were too long for the provider. */
  failed(): void {
    this.#blocks = Math.max(1, Math.floor(this.#blocks / 2));
  }
}
