/** A D1 that records the statements. It returns no rows, and for a single value 0 or the time. */
import { NOW } from "../../../src/platform/commit.ts";

type Recorded = { readonly text: string; readonly params: readonly (string | number | null)[] };

export class RecordingDatabase {
  readonly batches: Recorded[][] = [];
  /** Statements outside a batch. */
  readonly reads: Recorded[] = [];

  /** What a verb sees. It reaches `batch`, `prepare` and nothing else of D1. */
  get d1(): D1Database {
    const prepare = (text: string) => ({
      bind: (...params: Recorded["params"]) => {
        const respond = <Result>(result: Result) => {
          this.reads.push({ text, params });
          return Promise.resolve(result);
        };
        return {
          text,
          params,
          all: () => respond({ results: [] }),
          // A SELECT of one value (`scalar`) always has a row.
          first: () => respond(rowOf(text)),
          raw: () => respond([]),
        };
      },
    });
    const batch = (statements: Recorded[]) => {
      this.batches.push(statements.map(({ text, params }) => ({ text, params })));
      return Promise.resolve(statements.map(() => ({ results: [] })));
    };
    return Object.assign(Object.create(null), { prepare, batch });
  }
}

/** What `scalar` reads: the time, or zero for any other expression. */
function rowOf(text: string): { readonly value: number } | null {
  if (text === `SELECT ${NOW.text} AS value`) return { value: Date.now() };
  return text.endsWith(" AS value") ? { value: 0 } : null;
}
