/**
 * One read at a time answers for all requests of this isolate that ask meanwhile, so a flood of
 * requests costs D1 hardly more than one of them.
 *
 * No request awaits a promise of another one, because that never settles if the other's client
 * disconnects. Each waits with its own timer and reads itself if the reader does not return.
 */
import { now, sleep } from "./time.ts";

/** Questions that one read answers, and that wait for the next one. */
const MAX_QUESTIONS = 250;
const POLL_MS = 10;
/** A read that takes longer belongs to a request that was cancelled, or D1 does not respond. */
const READ_MS = 2_000;

type Answer<Value> = { readonly value: Value } | { readonly error: unknown };
type Asked<Question, Value> = { readonly question: Question; answer?: Answer<Value> };

export class SharedRead<Question, Value> {
  #asked: Asked<Question, Value>[] = [];
  #busyUntil = 0;

  /** The answer of `read`, which answers several in order. Undefined if too many wait. */
  async ask(
    question: Question,
    read: (questions: readonly Question[]) => Promise<readonly Value[]>,
  ): Promise<Value | undefined> {
    if (this.#asked.length >= MAX_QUESTIONS) return undefined;
    const asked: Asked<Question, Value> = { question };
    this.#asked.push(asked);
    while (asked.answer === undefined) {
      if (now() < this.#busyUntil) await sleep(POLL_MS);
      else await this.#read(asked, read);
    }
    if ("error" in asked.answer) throw asked.answer.error;
    return asked.answer.value;
  }

  async #read(
    own: Asked<Question, Value>,
    read: (questions: readonly Question[]) => Promise<readonly Value[]>,
  ): Promise<void> {
    // The own question may have been taken by a reader that did not return.
    const all = [own, ...this.#asked.filter((other) => other !== own)];
    this.#asked = [];
    const until = now() + READ_MS;
    this.#busyUntil = until;
    try {
      const values = await read(all.map(({ question }) => question));
      all.forEach((asked, index) => {
        const value = values[index];
        asked.answer =
          value === undefined ? { error: new Error("a question has no answer") } : { value };
      });
    } catch (error) {
      for (const asked of all) asked.answer = { error };
    } finally {
      // A later reader has taken over if this one was late.
      if (this.#busyUntil === until) this.#busyUntil = 0;
    }
  }
}
