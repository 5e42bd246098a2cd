/** A book remembers when its quotes expire. When it may have missed one, the database looks. */
import { describe, expect, it } from "vitest";
import { DueQuotes, type OpenQuote } from "../../src/rfq/due-quotes.ts";

const T = 1_764_551_330_400;

async function knowing(...quotes: OpenQuote[]): Promise<DueQuotes> {
  const due = new DueQuotes(() => Promise.resolve(quotes));
  await due.complete();
  return due;
}

describe("the due quotes of a book", () => {
  it("are not known until the open ones have been read", async () => {
    const due = new DueQuotes(() => Promise.resolve([["old", T - 1_000]]));
    due.add(["new", T]);
    expect([due.due(T), due.next()]).toEqual([null, undefined]);
    await due.complete();
    expect([due.due(T), due.next()]).toEqual([["old", "new"], T - 1_000]);
  });

  it("are not known after a loss, also one while they are read", async () => {
    const read = Promise.withResolvers<OpenQuote[]>();
    const due = new DueQuotes(() => read.promise);
    const reading = due.complete();
    due.forget();
    read.resolve([["a", T]]);
    await reading;
    expect(due.due(T)).toBeNull();
    await due.complete();
    expect(due.due(T)).toEqual(["a"]);
    due.forget();
    expect([due.due(T), due.next()]).toEqual([null, undefined]);
  });

  it("are not known if reading fails, and are read again", async () => {
    let fails = true;
    const due = new DueQuotes(() =>
      fails ? Promise.reject(new Error("lost")) : Promise.resolve([["a", T]]),
    );
    await due.complete();
    expect(due.due(T)).toBeNull();
    fails = false;
    await due.complete();
    expect(due.due(T)).toEqual(["a"]);
  });

  it("are named before their instant and stay until it has come", async () => {
    const due = await knowing(["b", T + 500], ["c", T + 90_000], ["a", T]);
    expect(due.due(T)?.toSorted()).toEqual(["a", "b"]);
    due.ended(["a", "b"], T);
    expect([due.due(T), due.next()]).toEqual([["b"], T + 500]);
    due.ended(["b"], T + 500);
    expect([due.due(T), due.next()]).toEqual([[], T + 90_000]);
    due.ended(["c"], T + 90_000);
    expect(due.next()).toBeNull();
  });

  it("stay if no group has named them", async () => {
    const due = await knowing(["a", T], ["b", T]);
    due.ended(["a"], T + 1);
    expect(due.due(T)).toEqual(["b"]);
  });

  it("are read anew when too many have ended early", async () => {
    let reads = 0;
    const due = new DueQuotes(() => {
      reads++;
      return Promise.resolve([["open", T]]);
    });
    await due.complete();
    for (let n = 0; n < 20_000; n++) due.add([`${n}`, T + 300_000]);
    expect(due.due(T)).toEqual(["open"]);
    due.add(["one more", T + 300_000]);
    expect(due.due(T)).toBeNull();
    await due.complete();
    expect([due.due(T), due.next(), reads]).toEqual([["open"], T, 2]);
    due.ended(["open"], T);
    expect(due.next()).toBeNull();
  });

  it("are named 200 at once", async () => {
    const due = await knowing(...Array.from({ length: 450 }, (_, n): OpenQuote => [`${n}`, T]));
    const sizes = [];
    for (let named = due.due(T) ?? []; named.length > 0; named = due.due(T) ?? []) {
      sizes.push(named.length);
      due.ended(named, T);
    }
    expect(sizes).toEqual([200, 200, 50]);
  });
});
