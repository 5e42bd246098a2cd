import { describe, expect, it } from "vitest";
import { ScanPace } from "../../src/chain/scan-pace.ts";

/** Follows a chain with this many logs a block and returns the ranges that were read. */
function rangesOf(logsPerBlock: number, count: number): number[] {
  const pace = new ScanPace();
  return Array.from({ length: count }, () => {
    const blocks = pace.limit(500);
    pace.read({ blocks, logs: blocks * logsPerBlock, fits: blocks });
    return blocks;
  });
}

describe("the pace of a scan", () => {
  it("doubles up to the configured range on a quiet chain", () => {
    expect(rangesOf(0, 8)).toEqual([16, 32, 64, 128, 256, 500, 500, 500]);
  });

  it("stays below 5 000 logs on a busy chain", () => {
    expect(rangesOf(150, 4)).toEqual([16, 32, 33, 33]);
    expect(rangesOf(20_000, 3)).toEqual([16, 1, 1]);
  });

  it("does not grow while only single blocks at the head are read", () => {
    const pace = new ScanPace();
    for (let block = 0; block < 100; block++) pace.read({ blocks: 1, logs: 3, fits: 1 });
    expect(pace.limit(500)).toBe(16);
  });

  it("asks for no more blocks than the provider accepts, but for one range in a hundred", () => {
    const pace = new ScanPace();
    let refused = 0;
    for (let range = 0; range < 300; range++) {
      const blocks = pace.limit(500);
      if (blocks > 10) refused++;
      pace.read({ blocks, logs: 0, fits: blocks > 10 ? Math.floor(blocks / 2) : blocks });
    }
    expect(refused).toBeLessThan(10);
  });

  it("halves after a failed round, down to one block", () => {
    const pace = new ScanPace();
    pace.failed();
    expect(pace.limit(500)).toBe(8);
    for (let round = 0; round < 10; round++) pace.failed();
    expect(pace.limit(500)).toBe(1);
  });
});
