import * as z from "zod";
import fc from "fast-check";
import { expect, it } from "vitest";
import { boolean, described, integer, QueryText } from "../../src/http/fields.ts";
import { JsonNumber } from "../../src/http/json.ts";
import { quickParse } from "../../src/http/quick-parse.ts";
import { AcceptBody, QuoteBody, quotesBody } from "../../src/rfq/schemas.ts";

const uuid = "01a2c585-0000-7000-8000-00000000000F";
/** Values of which each is valid for some field. */
const values = fc.constantFrom<unknown>(
  uuid,
  uuid.toLowerCase(),
  "Bid",
  "bid",
  "",
  "my-label",
  "2026-11-22T10:00:00Z",
  "2026-02-30T10:00:00Z",
  "500000",
  new JsonNumber("500000"),
  new JsonNumber("1e1"),
  new JsonNumber("0"),
  new JsonNumber("1.5"),
  new JsonNumber("300"),
  new QueryText("30"),
  new QueryText("true"),
  true,
  null,
  [],
  {},
);
const valid: Record<string, unknown> = {
  request_id: uuid,
  quote_id: uuid,
  price: new JsonNumber("500000"),
  side: "Ask",
  replaces: uuid,
  expires_in_secs: new JsonNumber("30"),
  label: "a",
  not_after: "2026-11-22T10:00:00+02:00",
  idempotency_key: "k",
};

/** Mostly valid members, some left out, some of another type, sometimes an unknown one. */
function bodies(names: readonly string[]): fc.Arbitrary<Record<string, unknown>> {
  const members = Object.fromEntries(
    [...names, "unknown"].map((name) => [
      name,
      fc.oneof(
        { weight: name === "unknown" ? 0 : 20, arbitrary: fc.constant(valid[name]) },
        { weight: 1, arbitrary: values },
        { weight: name === "unknown" ? 30 : 2, arbitrary: fc.constant(undefined) },
      ),
    ]),
  );
  return fc
    .record(members)
    .map((body) =>
      Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)),
    );
}

const QUOTE = ["request_id", "price", "side", "replaces", "expires_in_secs", "label"];
const several = fc
  .tuple(
    fc.array(bodies([...QUOTE, "idempotency_key"]), { maxLength: 4 }),
    fc.option(values),
    bodies(["not_after"]),
  )
  .map(([quotes, other, rest]) => ({ quotes: other === null ? quotes : other, ...rest }));

const other = z.strictObject({
  flag: boolean.default(false),
  nested: z.strictObject({ n: described(integer(1, 9), "a number") }).optional(),
  list: z.array(z.string().min(1)).optional(),
});
const others = fc
  .record({
    flag: fc.option(values, { nil: undefined }),
    nested: fc.option(fc.oneof(fc.constant({ n: new JsonNumber("3") }), values), {
      nil: undefined,
    }),
    list: fc.option(fc.oneof(fc.array(fc.string()), values), { nil: undefined }),
  })
  .map((body) =>
    Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)),
  );

it.each([
  ["a quote", QuoteBody, bodies([...QUOTE, "not_after"])],
  ["an accept", AcceptBody, bodies(["quote_id", "not_after"])],
  ["several quotes", quotesBody(3), several],
  ["no fields", z.strictObject({}), bodies([])],
  ["types that it does not know", other, others],
] as const)("parses %s exactly if zod does, with the same result", (_name, schema, arbitrary) => {
  let accepted = 0;
  fc.assert(
    fc.property(arbitrary, (given: Record<string, unknown>) => {
      const before = structuredClone(Object.keys(given));
      const expected = z.safeParse(schema, given);
      if (expected.success) accepted++;
      // toStrictEqual distinguishes an absent member from an undefined one.
      expect(quickParse<z.ZodType>(schema, given)).toStrictEqual(
        expected.success ? expected.data : undefined,
      );
      expect(Object.keys(given)).toEqual(before);
    }),
    { numRuns: 1_000 },
  );
  expect(accepted).toBeGreaterThan(20);
  expect(accepted).toBeLessThan(1_000);
});

it("gives each request its own default of a list", () => {
  expect(quickParse(z.strictObject({ a: z.array(z.string()).default([]) }), {})).toBeUndefined();
});

it("leaves an absent optional member with a default to zod", () => {
  const schema = z.strictObject({ a: integer(1, 9).default(3).optional() });
  expect(quickParse(schema, {})).toBeUndefined();
  expect(quickParse(schema, { a: new JsonNumber("4") })).toEqual({ a: 4 });
});

it("leaves a schema with a rule over several fields to zod", () => {
  const schema = z
    .strictObject({ a: integer(1, 9).optional(), b: integer(1, 9).optional() })
    .refine((body) => body.a !== body.b, "differ");
  expect(quickParse(schema, { a: new JsonNumber("1") })).toBeUndefined();
  const inside = z.strictObject({ pair: schema });
  expect(quickParse(inside, { pair: { a: new JsonNumber("1") } })).toEqual({ pair: { a: 1 } });
  expect(quickParse(inside, { pair: {} })).toBeUndefined();
});
