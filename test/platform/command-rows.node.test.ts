/** Commands as rows of one JSON parameter. */
import { DatabaseSync } from "node:sqlite";
import fc from "fast-check";
import { expect, it } from "vitest";
import { boundColumns, type CommandRow, selectRows } from "../../src/platform/command-rows.ts";
import { select, type Sql, sql } from "../../src/platform/sql.ts";

const FIELDS = {
  id: "blob",
  hash: "blob",
  name: "text",
  count: "integer",
  sum: "amount",
  other: "blob",
} as const;

const hexOf = (bytes: number) =>
  fc
    .uint8Array({ minLength: bytes, maxLength: bytes })
    .map((data) => Buffer.from(data).toString("hex"));
const orNull = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: null });

const row: fc.Arbitrary<CommandRow<keyof typeof FIELDS>> = fc.record({
  id: fc.uuid(),
  hash: fc.oneof(hexOf(12), hexOf(16)),
  name: orNull(fc.string()),
  count: orNull(fc.integer()),
  sum: fc.bigInt({ min: 0n, max: 2n ** 62n }).map(String),
  other: orNull(fc.uuid()),
});

it("reads each command as its parameters", () => {
  const db = new DatabaseSync(":memory:");
  const all = ({ text, params }: Sql) => db.prepare(text).all(...params);
  const columns = sql`c.id, c.hash, c.name, CAST(c.count AS INTEGER) AS count,
    typeof(c.sum) AS type, CAST(c.sum AS TEXT) AS sum, c.other`;
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 5 }), (rows) => {
      const together = all(sql`SELECT ${columns} FROM (${selectRows(FIELDS, rows)}) c`);
      const alone = rows.flatMap((one) =>
        all(sql`SELECT ${columns} FROM (SELECT ${select(boundColumns(FIELDS, one))}) c`),
      );
      expect(together).toEqual(alone);
    }),
  );
});
