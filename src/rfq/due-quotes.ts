/**
 * The open quotes of a book by the second in which they expire, so that a commit group names those
 * that are due and the database needs no index for them. It is only a hint: the statement looks at
 * each again. While it is not complete, as after a restart or a lost batch, the database looks at
 * all open quotes of the book instead.
 */
import { errorFields, log } from "../platform/log.ts";

/** A quote's id as hexadecimal text, and when it expires in Unix milliseconds. */
export type OpenQuote = readonly [id: string, expiresAt: number];

/** The group's instant is later than that of the Worker, by the way to D1 and by its clock. */
const AHEAD_MS = 1_000;
/** Quotes that one group names at most. */
const MAX_NAMED = 200;
/** Quotes that ended early stay here until they would have expired. So many do at most. */
const ENDED_EARLY = 20_000;

export class DueQuotes {
  readonly #read: () => Promise<readonly OpenQuote[]>;
  readonly #seconds = new Map<number, Map<string, number>>();
  /** Changes when something may be missing. Complete if that of the last reading. */
  #version = 0;
  #complete = -1;
  #reading = false;
  #size = 0;
  #most = ENDED_EARLY;

  constructor(read: () => Promise<readonly OpenQuote[]>) {
    this.#read = read;
  }

  /** Something may be missing. */
  forget(): void {
    this.#version++;
  }

  add([id, expiresAt]: OpenQuote): void {
    const second = Math.floor(expiresAt / 1_000);
    const quotes = this.#seconds.get(second) ?? new Map<string, number>();
    if (!quotes.has(id)) this.#size++;
    this.#seconds.set(second, quotes.set(id, expiresAt));
    if (this.#size <= this.#most) return;
    this.#seconds.clear();
    this.#size = 0;
    this.forget();
  }

  async complete(): Promise<void> {
    if (this.#isComplete() || this.#reading) return;
    this.#reading = true;
    const version = this.#version;
    try {
      const open = await this.#read();
      this.#most = this.#size + open.length + ENDED_EARLY;
      for (const quote of open) this.add(quote);
      this.#complete = version;
    } catch (error) {
      log("warn", "rfq.open_quotes_unread", errorFields(error));
    } finally {
      this.#reading = false;
    }
  }

  /** What is due soon after `at`, the first ones first. Null: not known. */
  due(at: number): readonly string[] | null {
    if (!this.#isComplete()) return null;
    const due: string[] = [];
    for (const second of this.#inOrder())
      for (const id of this.#seconds.get(second)?.keys() ?? []) {
        if (second * 1_000 > at + AHEAD_MS || due.length === MAX_NAMED) return due;
        due.push(id);
      }
    return due;
  }

  /** A group at `at` has named these, so none of them that was due is open. */
  ended(named: readonly string[], at: number): void {
    const ids = new Set(named);
    for (const [second, quotes] of this.#seconds) {
      if (second * 1_000 > at) continue;
      for (const [id, expiresAt] of quotes)
        if (ids.has(id) && expiresAt <= at && quotes.delete(id)) this.#size--;
      if (quotes.size === 0) this.#seconds.delete(second);
    }
  }

  /** When the next one expires, in Unix milliseconds. Undefined: not known. */
  next(): number | null | undefined {
    if (!this.#isComplete()) return undefined;
    const [second] = this.#inOrder();
    if (second === undefined) return null;
    return [...(this.#seconds.get(second)?.values() ?? [])].reduce((a, b) => Math.min(a, b));
  }

  #isComplete(): boolean {
    return this.#complete === this.#version;
  }

  #inOrder(): number[] {
    return [...this.#seconds.keys()].toSorted((a, b) => a - b);
  }
}
