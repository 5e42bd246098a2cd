/** Finds why guards did not apply. One read answers for all that were refused meanwhile. */
import { ask, type Question } from "../platform/preconditions.ts";
import type { Result } from "./command.ts";

type Asked = {
  readonly question: Question<Result>;
  readonly resolve: (result: Result | undefined) => void;
  readonly reject: (error: unknown) => void;
};

/** The parameters of this many questions stay far below D1's limit of a bound value. */
const MAX_QUESTIONS = 256;

export class RejectionReader {
  readonly #db: D1Database;
  #asked: Asked[] = [];
  #running = false;

  constructor(db: D1Database) {
    this.#db = db;
  }

  /** Undefined if all preconditions hold now. Rejects if D1 does not respond. */
  find(question: Question<Result>): Promise<Result | undefined> {
    return new Promise((resolve, reject) => {
      this.#asked.push({ question, resolve, reject });
      if (!this.#running) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running = true;
    // The other rejections of the same group are asked in this turn.
    await Promise.resolve();
    while (this.#asked.length > 0) {
      const asked = this.#asked.splice(0, MAX_QUESTIONS);
      try {
        const outcomes = await ask(
          this.#db,
          asked.map(({ question }) => question),
        );
        asked.forEach(({ resolve }, index) => resolve(outcomes[index]));
      } catch (error) {
        for (const { reject } of asked) reject(error);
      }
    }
    this.#running = false;
  }
}
