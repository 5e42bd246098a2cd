/**
 * The sums of the counts of all isolates (counts.ts): one Durable Object. It stores them once a
 * minute, and before it shows them, so that no counter falls when the object is reset. Prometheus
 * would take a fall for a restart from zero, and add the whole sum once more.
 */
import { DurableObject } from "cloudflare:workers";
import { PLATFORM } from "./platform-limits.ts";
import { now } from "./time.ts";

const STORE_EVERY_MS = 60_000;
/** All series are one stored value. A series has some 100 bytes. */
export const MAX_SERIES = PLATFORM.storedBytes / 400;
const SUMS = "sums";

export class Metrics extends DurableObject<Env> {
  readonly #sums = this.ctx.storage.kv.get<Map<string, number>>(SUMS) ?? new Map<string, number>();
  #changed = false;
  #storedAt = now();

  async add(counts: readonly (readonly [series: string, by: number])[]): Promise<void> {
    for (const [series, by] of counts) {
      const before = this.#sums.get(series);
      if (before === undefined && this.#sums.size >= MAX_SERIES) continue;
      this.#sums.set(series, (before ?? 0) + by);
      this.#changed = true;
    }
    if (now() - this.#storedAt >= STORE_EVERY_MS) this.#store();
  }

  /** The runtime keeps the response back until the sums are on disk. */
  async read(): Promise<Map<string, number>> {
    this.#store();
    return this.#sums;
  }

  #store(): void {
    if (this.#changed) this.ctx.storage.kv.put(SUMS, this.#sums);
    this.#changed = false;
    this.#storedAt = now();
  }
}
