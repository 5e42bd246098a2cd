import { expect, it } from "vitest";
import { csvLine } from "../../packages/console/src/csv.ts";
import { apiKeyOf } from "../../packages/console/src/wallet/withdrawal-errors.ts";

it("writes no cell that a spreadsheet runs as a formula", () => {
  expect(csvLine(["=1+1", "+1", "-1+2", "@SUM(A1)", "\t=1", "a=b"])).toBe(
    "'=1+1,'+1,'-1+2,'@SUM(A1),'\t=1,a=b\r\n",
  );
});

it("writes amounts exactly and quotes what would end a cell", () => {
  expect(csvLine(["-9007199254740993.000001", 7, null, 'a "b", c\nd'])).toBe(
    '-9007199254740993.000001,7,,"a ""b"", c\nd"\r\n',
  );
});

it("reads a pasted key with and without the words of its receipt", () => {
  const apiKeyId = "7f0c0000-0000-4000-8000-000000000000";
  const key = { apiKeyId, secret: "c2VjcmV0" };
  for (const text of [
    `${apiKeyId} c2VjcmV0`,
    `${apiKeyId}:c2VjcmV0 `,
    `Copy the secret now. It is shown once.Key id: ${apiKeyId}Secret: c2VjcmV0`,
  ])
    expect(apiKeyOf(text)).toEqual(key);
  expect(apiKeyOf(apiKeyId)).toBeNull();
});
