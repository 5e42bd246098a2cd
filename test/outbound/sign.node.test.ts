import { expect, it } from "vitest";
import { retryDelayMs } from "../../src/outbound/post-once.ts";
import { signedHeaders } from "../../src/outbound/sign.ts";

const MESSAGE = {
  id: "msg_loFOjxBNrRLzqYUf",
  at: 1_731_705_121_999,
  body: '{"event_type":"ping","data":{"success":true}}',
};
const SECRET = "whsec_plJ3nmyCDGBKInavdOK15jsl";
const SIGNATURE = "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0=";

it("signs the published example of Standard Webhooks as published", () => {
  expect(signedHeaders([SECRET], MESSAGE)).toEqual({
    "webhook-id": MESSAGE.id,
    "webhook-timestamp": "1731705121",
    "webhook-signature": SIGNATURE,
  });
});

it("signs with each of two secrets while a receiver changes them", () => {
  const next = "whsec_bmV3ZXItc2VjcmV0LW9mLTMyLWJ5dGVzLTAxMjM0NTY=";
  const both = signedHeaders([next, SECRET], MESSAGE)["webhook-signature"]?.split(" ");
  expect(both).toEqual([signedHeaders([next], MESSAGE)["webhook-signature"], SIGNATURE]);
});

it("waits 10 s after the first failure, and doubles up to an hour", () => {
  const delays = [1, 2, 3, 9, 10, 11, 1_000].map((failures) => retryDelayMs(failures, 0) / 1_000);
  expect(delays).toEqual([10, 20, 40, 2_560, 3_600, 3_600, 3_600]);
});

it("takes a random part of up to a quarter off", () => {
  expect(retryDelayMs(1, 1)).toBe(7_500);
  expect(new Set(Array.from({ length: 9 }, () => retryDelayMs(11))).size).toBeGreaterThan(1);
});
