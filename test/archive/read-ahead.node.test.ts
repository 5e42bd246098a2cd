/** Reads of blocks ahead of the caller. */
import { expect, it } from "vitest";
import { readAhead } from "../../src/archive/read-ahead.ts";

/** Reads that end when the test says so. */
class Reads {
  readonly started: number[] = [];
  readonly read = (item: number): Promise<string> => {
    this.started.push(item);
    return item === 9 ? Promise.reject(new Error("away")) : Promise.resolve(`content ${item}`);
  };
}

const NUMBERS = Array.from({ length: 14 }, (_, index) => index);

it("returns every item in order, with its content", async () => {
  const reads = new Reads();
  const found: string[] = [];
  for (const { item, content } of readAhead(NUMBERS.slice(0, 9), reads.read))
    found.push(`${item}: ${await content}`);
  expect(found).toEqual(NUMBERS.slice(0, 9).map((item) => `${item}: content ${item}`));
  expect(reads.started).toEqual(NUMBERS.slice(0, 9));
});

it("reads one block for a page that needs one, and at most six at once", () => {
  const reads = new Reads();
  const started: number[] = [];
  for (const { item } of readAhead(NUMBERS, reads.read)) {
    started.push(reads.started.length - item);
    if (item === 7) break;
  }
  expect(started).toEqual([1, 2, 3, 4, 5, 6, 6, 6]);
});

it("hides the error of a read that nobody needed, and no other", async () => {
  const reads = new Reads();
  for (const { item, content } of readAhead(NUMBERS, reads.read)) {
    if (item === 9) {
      await expect(content).rejects.toThrow("away");
      break;
    }
    // Item 9 has failed by now, and is not needed yet.
    await content;
  }
  expect(reads.started).toContain(9);
});

it("closes each read once, also those ahead of a caller that ends", async () => {
  const reads = new Reads();
  const closed: number[] = [];
  const open: number[] = [];
  for (const { item, content } of readAhead(NUMBERS, reads.read, (one) => closed.push(one))) {
    await content;
    open.push(reads.started.length - closed.length);
    if (item === 5) break;
  }
  await Promise.resolve();
  // Item 9 has failed.
  expect(closed).toEqual(reads.started.filter((item) => item !== 9));
  expect(open).toEqual([1, 2, 3, 4, 5, 6]);
});

it("does nothing without items", () => {
  const reads = new Reads();
  expect([...readAhead([], reads.read)]).toEqual([]);
});
