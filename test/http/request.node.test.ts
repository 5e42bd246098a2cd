import * as z from "zod";
import { expect, it } from "vitest";
import { queryFields, validate } from "../../src/http/request.ts";
import type { FieldError } from "../../src/platform/problem.ts";

/** An array that counts the reads of its items. */
function countingReads<T extends object>(items: T[]): { items: T[]; reads: () => number } {
  let reads = 0;
  const counted = items.map(
    (item) =>
      new Proxy(item, {
        get: (target, name, receiver) => {
          reads++;
          return Reflect.get(target, name, receiver);
        },
      }),
  );
  return { items: counted, reads: () => reads };
}

it("stops at the maximum of errors and reports each once", () => {
  const given = Object.fromEntries(Array.from({ length: 5_000 }, (_, index) => [`f${index}`, 0]));
  const errors: FieldError[] = [{ path: "body.first", message: "is wrong" }];
  expect(validate(z.strictObject({}), given, "body", errors)).toBeUndefined();
  expect(errors).toHaveLength(50);
  expect(new Set(errors.map(({ path }) => path)).size).toBe(50);
  const list: FieldError[] = [];
  validate(z.strictObject({ a: z.array(z.int()) }), { a: Array(64).fill("x") }, () => "body", list);
  expect(list).toHaveLength(50);
});

it("compares each error with the earlier ones once, not with all of them", () => {
  const known = countingReads(
    Array.from({ length: 40 }, (_, index) => ({ path: `query.${index}`, message: "is wrong" })),
  );
  const given = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`f${index}`, 0]));
  validate(z.strictObject({}), given, "body", known.items);
  expect(known.items).toHaveLength(49);
  expect(known.reads()).toBe(2 * 40);
});

it("rejects a query of more than 64 parameters without reading them", () => {
  const query = (count: number) =>
    `http://edge.test/time?${Array.from({ length: count }, (_, index) => `p${index}`).join("&")}`;
  const errors: FieldError[] = [];
  expect(Object.keys(queryFields(query(64), errors))).toHaveLength(64);
  expect(errors).toEqual([]);
  expect(Object.keys(queryFields(query(4_000), errors))).toEqual([]);
  expect(errors).toEqual([{ path: "query", message: "must not have more than 64 parameters" }]);
});
