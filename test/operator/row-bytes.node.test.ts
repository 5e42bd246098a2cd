import { expect, it } from "vitest";
import { TABLE_SIZES } from "../../src/operator/row-bytes.ts";
import { measuredRowBytes } from "../support/node/row-bytes.ts";

/** A table of so few rows takes whole pages. */
const PAGES = 4_000;

it("the bytes per row are those that SQLite measures", () => {
  const measured = measuredRowBytes();
  expect(Object.keys(TABLE_SIZES).toSorted()).toEqual([...measured.keys()].toSorted());
  for (const [table, bytes] of measured) {
    if (bytes >= PAGES) continue;
    const stated = TABLE_SIZES[table]?.bytes ?? 0;
    expect(Math.abs(stated / bytes - 1), `${table}: ${stated}, measured ${bytes}`).toBeLessThan(
      0.25,
    );
  }
});
