import { expect, it } from "vitest";
import { checkAlone, checkRowsAlone, mapAlone } from "../../src/reconcile/check-alone.ts";
import type { Difference } from "../../src/reconcile/difference.ts";

/** Safe cast: the checks of these tests read nothing. */
const db = {} as D1Database;
const TERMS = { db, name: "terms", rows: "group" } as const;
const found = (row: number): Difference => ({
  check: "record_mismatch",
  account: "all",
  amount: String(row),
  detail: "",
});
/** A check that finds row 3 and throws on the bad rows. */
const checkOf =
  (bad: readonly number[]) =>
  async ({ after, upTo }: { after: number; upTo: number }) => {
    if (bad.some((row) => row > after && row <= upTo)) throw new Error("bad row");
    return after < 3 && upTo >= 3 ? [found(3)] : [];
  };
const texts = (differences: readonly Difference[]) =>
  differences.map(({ check, account, detail }) => `${check} ${account} ${detail}`).toSorted();

it("names the rows on which a check throws, and checks the others", async () => {
  const all = await checkRowsAlone(
    { ...TERMS, chunk: { after: 0, upTo: 2_000 } },
    checkOf([7, 1_999]),
  );
  expect(texts(all)).toEqual([
    "check_failed all/check/terms group 1999: bad row",
    "check_failed all/check/terms group 7: bad row",
    "record_mismatch all ",
  ]);
});

it("bounds the reads of a check that throws on every row", async () => {
  const every = Array.from({ length: 2_000 }, (_, index) => index + 1);
  let reads = 0;
  const all = await checkRowsAlone({ ...TERMS, chunk: { after: 0, upTo: 2_000 } }, (rows) => {
    reads++;
    return checkOf(every)(rows);
  });
  expect(all.length).toBeLessThan(30);
  expect(reads).toBeLessThan(60);
});

it("ends with numbers that doubles do not tell apart", async () => {
  const chunk = { after: 2 ** 63 - 2_048, upTo: 2 ** 63 };
  const all = await checkRowsAlone({ ...TERMS, chunk }, () => Promise.reject(new Error("huge")));
  expect(all.every(({ check }) => check === "check_failed")).toBe(true);
});

it("reports a check of no rows, and a row that cannot be described", async () => {
  expect(texts(await checkAlone("sums", () => Promise.reject(new Error("away"))))).toEqual([
    "check_failed all/check/sums the whole check: away",
  ]);
  const { results, failed } = mapAlone("sums", ["1", "x"], {
    of: (text) => BigInt(text),
    nameOf: (text) => `asset ${text}`,
  });
  expect(results).toEqual([1n]);
  expect(texts(failed)).toEqual([
    "check_failed all/check/sums asset x: Cannot convert x to a BigInt",
  ]);
});

it.each([
  "D1_ERROR: Network connection lost.",
  "Network connection lost.",
  "D1_ERROR: no such column: w.new: SQLITE_ERROR",
  "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
  "internal error; reference = abc",
])("reports no difference if D1 fails with %s", async (message) => {
  const away = () => Promise.reject(new Error(message));
  await expect(checkAlone("sums", away)).rejects.toThrow(message);
  const chunk = { after: 0, upTo: 2_000 };
  await expect(checkRowsAlone({ ...TERMS, chunk }, away)).rejects.toThrow(message);
});

it("reports what SQLite refuses", async () => {
  const refuse = () => Promise.reject(new Error("D1_ERROR: malformed JSON: SQLITE_ERROR"));
  expect(texts(await checkAlone("sums", refuse))).toEqual([
    "check_failed all/check/sums the whole check: D1_ERROR: malformed JSON: SQLITE_ERROR",
  ]);
});
