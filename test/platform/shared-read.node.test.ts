import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { SharedRead } from "../../src/platform/shared-read.ts";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** Answers each question with its text in capitals after 20 ms, and records what was asked. */
function reader() {
  const reads: string[][] = [];
  const read = async (questions: readonly string[]) => {
    reads.push([...questions]);
    await new Promise((resolve) => setTimeout(resolve, 20));
    return questions.map((question) => question.toUpperCase());
  };
  return { reads, read };
}

it("answers all who ask during a read with the next one", async () => {
  const shared = new SharedRead<string, string>();
  const { reads, read } = reader();
  const answers = ["a", "b", "c"].map((question) => shared.ask(question, read));
  await vi.advanceTimersByTimeAsync(100);
  expect(await Promise.all(answers)).toEqual(["A", "B", "C"]);
  expect(reads).toEqual([["a"], ["b", "c"]]);
});

it("does not wait for a reader whose request was cancelled", async () => {
  const shared = new SharedRead<string, string>();
  const { reads, read } = reader();
  void shared.ask("cancelled", () => new Promise(() => {}));
  const answer = shared.ask("b", read);
  await vi.advanceTimersByTimeAsync(1_900);
  expect(reads).toEqual([]);
  await vi.advanceTimersByTimeAsync(200);
  expect(await answer).toBe("B");
  expect(reads).toEqual([["b"]]);
});

it("takes a question over from a reader that did not return", async () => {
  const shared = new SharedRead<string, string>();
  const { reads, read } = reader();
  const first = shared.ask("a", read);
  void shared.ask("cancelled", () => new Promise(() => {}));
  const taken = shared.ask("b", read);
  await vi.advanceTimersByTimeAsync(40);
  expect(await first).toBe("A");
  await vi.advanceTimersByTimeAsync(2_100);
  expect(await taken).toBe("B");
  expect(reads).toEqual([["a"], ["b"]]);
});

it("rejects all questions of a read that failed, and reads again for the next", async () => {
  const shared = new SharedRead<string, string>();
  const { read } = reader();
  const answers = ["a", "b"].map((question) =>
    shared.ask(question, () => Promise.reject(new Error("no response"))),
  );
  const outcomes = Promise.allSettled(answers);
  await vi.advanceTimersByTimeAsync(50);
  expect((await outcomes).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  const answer = shared.ask("c", read);
  await vi.advanceTimersByTimeAsync(50);
  expect(await answer).toBe("C");
});

it("refuses questions when too many wait", async () => {
  const shared = new SharedRead<string, string>();
  const { reads, read } = reader();
  const answers = Array.from({ length: 300 }, (_, n) => shared.ask(`${n}`, read));
  await vi.advanceTimersByTimeAsync(100);
  const refused = (await Promise.all(answers)).filter((answer) => answer === undefined);
  expect(refused).toHaveLength(49);
  expect(reads.map(({ length }) => length)).toEqual([1, 250]);
});
