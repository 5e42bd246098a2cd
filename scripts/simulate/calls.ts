/**
 * Counts the calls of the users and operators by verb, so that a model whose calls are refused does
 * not pass for one that finds nothing.
 */
import { Problem } from "../../src/platform/problem.ts";
import { Violation } from "./violation.ts";

/** A verb that is called this often in a seed succeeds at least once. */
const MIN_TRIES = 40;

type Counts = { ok: number; readonly problems: Map<string, number> };

export class Calls {
  readonly #verbs = new Map<string, Counts>();

  ok(verb: string): void {
    this.#countsOf(verb).ok++;
  }

  refused(verb: string, code: string): void {
    const { problems } = this.#countsOf(verb);
    problems.set(code, (problems.get(code) ?? 0) + 1);
  }

  /** Counts one call. Its error is thrown again. */
  async count<T>(verb: string, work: () => Promise<T>): Promise<T> {
    try {
      const value = await work();
      this.ok(verb);
      return value;
    } catch (error) {
      this.refused(verb, codeOf(error));
      throw error;
    }
  }

  /** The verb's calls, and its most frequent problem. */
  summary(verb: string): string {
    const { ok, problems } = this.#countsOf(verb);
    const frequent = [...problems].toSorted((a, b) => b[1] - a[1]);
    const shown = frequent.slice(0, 6).map(([code, times]) => `${code} ${times}`);
    return `${verb}: ${ok} of ${triesOf({ ok, problems })} succeeded; ${shown.join(", ")}`;
  }

  get verbs(): readonly string[] {
    return [...this.#verbs.keys()].toSorted();
  }

  /** At the end of a seed. */
  check(): void {
    for (const [verb, counts] of this.#verbs)
      if (counts.ok === 0 && triesOf(counts) >= MIN_TRIES)
        throw new Violation("verb_succeeds", this.summary(verb));
  }

  #countsOf(verb: string): Counts {
    let counts = this.#verbs.get(verb);
    if (counts === undefined) {
      counts = { ok: 0, problems: new Map() };
      this.#verbs.set(verb, counts);
    }
    return counts;
  }
}

/** What the caller learns: the code of a problem, or that there was none. */
export function codeOf(error: unknown): string {
  return error instanceof Problem ? error.data.code : "error";
}

function triesOf({ ok, problems }: Counts): number {
  return [...problems.values()].reduce((sum, times) => sum + times, ok);
}
