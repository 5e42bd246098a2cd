import { describe, expect, it } from "vitest";
import { type OnceBucket, putOnce } from "../../src/platform/put-once.ts";

const locked = () => Promise.reject(new Error("put: locked object (10069)"));
const away = () => Promise.reject(new Error("10001: internal error"));
const taken = () => Promise.resolve({ key: "key" });
const nothing = () => Promise.resolve(null);

/** Safe cast: only these two are called. */
const put = (bucket: { put: () => Promise<unknown>; head: () => Promise<unknown> }) =>
  putOnce(bucket as unknown as OnceBucket, "key", "value", {});

describe("a put of an object that is written once", () => {
  it.each([
    ["the key is free", { put: taken, head: away }],
    ["the key is taken, and the condition fails", { put: nothing, head: away }],
    ["the key is taken, and its lock throws", { put: locked, head: taken }],
  ])("succeeds if %s", async (_title, bucket) => {
    await expect(put(bucket)).resolves.toBeUndefined();
  });

  it.each([
    ["no object is there", { put: locked, head: nothing }],
    ["nobody knows what is there", { put: locked, head: away }],
  ])("fails with R2's own error if %s", async (_title, bucket) => {
    await expect(put(bucket)).rejects.toThrow("10069");
  });
});
