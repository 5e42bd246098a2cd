/** The hash of these texts is stored with each idempotency key, so a version must not change them. */
import { expect, it } from "vitest";
import { JsonNumber } from "../../src/http/json.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { openRequestOf, placeQuoteOf } from "../../src/rfq/read-commands.ts";
import { config } from "../../src/platform/config.ts";
import { QuoteBody, RequestBody } from "../../src/rfq/schemas.ts";
import { testSettings } from "../support/settings.ts";

const actor: Actor = {
  userId: "0196f0c2-0000-7000-8000-000000000001",
  scopes: ["read", "trade"],
  credential: { kind: "session", epoch: 0, issuedAtMs: 0, expiresAtMs: 1 },
};
const settings = config(testSettings());
const sent = { actor, receivedAt: 0, socketId: undefined };

it("a repeat after a deployment has the terms of the first call", () => {
  const request = RequestBody.parse({
    asset_id: "0x51a7",
    venue_id: "venue_one",
    amount: "5",
    side: "Bid",
    label: "mine",
  });
  expect(openRequestOf(request, sent, "key", settings).idempotency?.terms).toBe(
    '["venue_one:0x51a7","5",null,"Bid",false,300,"mine"]',
  );
  const quote = QuoteBody.parse({
    request_id: "00000000-0000-7000-8000-000000000002",
    price: new JsonNumber("640000"),
    expires_in_secs: new JsonNumber("30"),
    label: "mine",
  });
  expect(placeQuoteOf(quote, sent, "key").idempotency?.terms).toBe(
    '["00000000-0000-7000-8000-000000000002",640000,null,null,30,"mine"]',
  );
});
