import { expect, it } from "vitest";
import { TABLE_SIZES } from "../../src/operator/row-bytes.ts";
import { itInRelease } from "../support/depth.ts";
import { measuredRowBytes } from "../support/node/row-bytes.ts";
import { schemaTables } from "../support/node/schema.ts";

/** A table of so few rows takes whole pages. */
const PAGES = 4_000;

it("every table has a size", () => {
  expect(Object.keys(TABLE_SIZES).toSorted()).toEqual(schemaTables().toSorted());
});

itInRelease("the bytes per row are those that SQLite measures", () => {
  for (const [table, bytes] of measuredRowBytes()) {
    if (bytes >= PAGES) continue;
    const stated = TABLE_SIZES[table]?.bytes ?? 0;
    expect(Math.abs(stated / bytes - 1), `${table}: ${stated}, measured ${bytes}`).toBeLessThan(
      0.25,
    );
  }
});
