/** Cloudflare's limits: who keeps them, and the largest batch and values of the code. */
import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { config } from "../../src/platform/config.ts";
import { isD1Error, PLATFORM } from "../../src/platform/platform-limits.ts";
import { atom, checkLimits, jsonArray, prepare, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { acceptQuote } from "../../src/rfq/accept-quote.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import type { BookOperation } from "../../src/rfq/book-operation.ts";
import { placeQuote } from "../../src/rfq/place-quote.ts";
import { RecordingDatabase } from "../support/node/recording-database.ts";
import { testSettings } from "../support/settings.ts";
import { placeQuoteTerms } from "../../scripts/actors/terms.ts";

it.each(Object.keys(PLATFORM))("%s is kept by a file of src", (name) => {
  const files = globSync("src/**/*.ts").map((file) => readFileSync(file, "utf8"));
  expect(files.filter((code) => new RegExp(`PLATFORM\\.${name}\\b`).test(code))).not.toEqual([]);
});

it("refuses what D1 refuses, before anything is sent", () => {
  const many = (length: number) => Array.from({ length }, () => 1);
  const { params, statementBytes, functionArguments, valueBytes } = PLATFORM;
  checkLimits("?", many(params));
  expect(() => checkLimits("?", many(params + 1))).toThrow("101 parameters");
  checkLimits("x".repeat(statementBytes), []);
  expect(() => checkLimits("x".repeat(statementBytes + 1), [])).toThrow(RangeError);
  jsonArray(many(functionArguments).map(() => atom("1")));
  expect(() => jsonArray(many(functionArguments + 1).map(() => atom("1")))).toThrow(RangeError);
  checkLimits("?", ["x".repeat(0.9 * valueBytes)]);
  expect(() => checkLimits("?", ["x".repeat(valueBytes)])).toThrow(RangeError);
  const { d1 } = new RecordingDatabase();
  expect(() => prepare(d1, sql`SELECT ${"ä".repeat(950_001)}`)).toThrow("1900000 bytes long");
  // Three bytes a character.
  expect(() => checkLimits("?", ["語".repeat(valueBytes / 3)])).toThrow(RangeError);
});

const settings = config(testSettings());
const LONGEST = "x".repeat(128);
const asset = `venue_three:0x${"f".repeat(64)}`;
const sent = () => ({
  actor: {
    userId: uuidv7(),
    scopes: ["read", "trade"],
    credential: { kind: "api_key", apiKeyId: uuidv7() },
  } as const,
  receivedAt: 1_764_551_330_000,
  notAfter: 1_764_551_331_000,
  socketId: uuidv7(),
});
const largestQuote = (): BookOperation => {
  const terms = placeQuoteTerms({ requestId: uuidv7(), label: LONGEST, replaces: uuidv7() });
  const idempotency = { key: LONGEST, terms: JSON.stringify(terms) };
  return placeQuote(
    { op: "place_quote", ...sent(), quoteId: uuidv7(), ...terms, idempotency },
    { asset, amount: 2n ** 62n, usdcAmount: null, side: "TwoWay" },
    settings,
  );
};
const anAccept = (): BookOperation =>
  acceptQuote({ op: "accept", ...sent(), matchId: uuidv7(), quoteId: uuidv7() }, settings);

// As the group committer takes them: an accept weighs as much as four quotes.
it.each<[name: string, count: number, make: () => BookOperation, statements: number]>([
  ["256 quotes with the longest texts", 256, largestQuote, 20],
  ["64 accepts", 64, anAccept, 700],
])("a group of %s is within the limits of D1", async (_, count, make, most) => {
  const recorder = new RecordingDatabase();
  const operations = Array.from({ length: count }, make);
  // The recorder has no rows, so the group's report cannot be read.
  await expect(commitOperations(recorder.d1, asset, operations)).rejects.toThrow("no instant");
  const [batch = []] = recorder.batches;
  expect(batch.length).toBeGreaterThan(3);
  expect(batch.length).toBeLessThan(most);
  expect(most).toBeLessThan(PLATFORM.queries);
  for (const { text, params } of batch) {
    checkLimits(text, params);
    const bytes = params.map((param) => new TextEncoder().encode(String(param)).length);
    expect(Math.max(0, ...bytes)).toBeLessThan(PLATFORM.valueBytes / 2);
  }
});

it("names the texts of D1's errors in one file", () => {
  const others = globSync("src/**/*.ts").filter((file) => !file.endsWith("platform-limits.ts"));
  const naming = others.filter((file) => {
    const code = readFileSync(file, "utf8").replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "");
    return /D1_ERROR|SQLITE_|constraint failed|no such \(|Network connection lost/.test(code);
  });
  expect(naming).toEqual([]);
});

it.each([
  ["D1_ERROR: append-only: transfers: SQLITE_CONSTRAINT (extended: …)", ["constraint", "sqlite"]],
  ["D1_ERROR: string or blob too big: SQLITE_TOOBIG", ["impossible", "sqlite"]],
  ["D1_ERROR: no such column: x: SQLITE_ERROR", ["impossible", "unapplied", "sqlite"]],
  ["UNIQUE constraint failed: commit_groups.group_id", ["constraint", "group"]],
  ["D1 DB is overloaded. Requests queued for too long.", ["away"]],
  ["Network connection lost.", ["away"]],
])("reads %s", (text, kinds) => {
  const names = ["constraint", "impossible", "group", "unapplied", "away", "sqlite"] as const;
  for (const error of [new Error(text), new Error("x", { cause: text })]) {
    const found = names.filter((name) => isD1Error(error, name));
    expect(found.filter((name) => name !== "away" || !text.startsWith("D1_ERROR"))).toEqual(kinds);
  }
});
