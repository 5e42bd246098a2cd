import { randomUUID } from "node:crypto";
import { expect, it } from "vitest";
import { writeLimits } from "../../src/auth/key-limits.ts";
import { problemExamples } from "../../scripts/openapi/problem-examples.ts";
import { ProblemSchema } from "../../src/http/problem-schema.ts";
import { problemBody } from "../../src/platform/problem.ts";
import { keyLimit } from "../../src/rfq/trade-limits.ts";
import { readRestDescription } from "../../scripts/openapi/conformance.ts";

const errorsOf = readRestDescription();
const ROUTE = { method: "POST", path: "/rfq/quote", status: 409, type: "application/problem+json" };

it.each([
  { limit: "venues", limits: { venues: ["venue_two"] } },
  { limit: "max_usdc_per_trade", limits: { maxUsdcPerTrade: 1n } },
  { limit: "max_usdc_per_day", limits: { maxUsdcPerDay: 1n } },
])("describes the problem of the key limit $limit", ({ limit, limits }) => {
  const stored = writeLimits({
    venues: null,
    maxUsdcPerTrade: null,
    maxUsdcPerDay: null,
    ...limits,
  });
  const facts = JSON.stringify({ limits: stored, used: "0", venue: "venue_one" });
  const result = keyLimit({ key_limits: facts, account_limits: null }, 2n);
  if (result === undefined || result.ok) throw new Error("the limit does not apply");
  expect(result.problem.extensions).toMatchObject({ limit });
  const body = problemBody(result.problem, randomUUID());
  expect(errorsOf({ ...ROUTE, body })).toEqual([]);
});

it.each(Object.entries(problemExamples()))("describes every member of %s", (_code, { value }) => {
  expect(Object.keys(ProblemSchema.shape)).toEqual(
    expect.arrayContaining(Object.keys(value as object)),
  );
});
