/** What a sealed quote costs. The archive only grows. */
import { randomBytes, randomInt } from "node:crypto";
import { expect, it } from "vitest";
import type { SealedQuote } from "../../src/archive/sealed-columns.ts";
import { GENESIS } from "../../src/archive/footer.ts";
import { encodeSeal } from "../../src/archive/seal-format.ts";
import { idAt } from "./journal-model.ts";

const STARTED_AT = 1_764_551_300_000;
const QUOTES = 5_000;
const MAKERS = 40;

/** Bytes of one quote. */
const MOST_BYTES_A_QUOTE = 60;

it(`takes less than ${MOST_BYTES_A_QUOTE} bytes for a quote`, () => {
  const { bytes } = encodeSeal({
    epoch: 1,
    number: 1,
    previous: GENESIS,
    after: 0,
    upTo: 0,
    afterGroup: 0,
    upToGroup: 2 * QUOTES,
    transfers: [],
    requests: [],
    quotes: quotesInTurn(),
    matches: [],
  });
  expect(bytes.length / QUOTES).toBeLessThan(MOST_BYTES_A_QUOTE);
});

/** Makers quote in turn at 300 quotes a second. Each quote is cancelled after some seconds. */
function quotesInTurn(): SealedQuote[] {
  const makers = Array.from({ length: MAKERS }, () =>
    idAt(STARTED_AT, randomBytes(10).toString("hex")),
  );
  const requests = Array.from({ length: 500 }, () =>
    idAt(STARTED_AT, randomBytes(10).toString("hex")),
  );
  const quotes: SealedQuote[] = [];
  for (let n = 0; n < QUOTES; n++) {
    const openedAt = STARTED_AT + Math.floor((n * 1_000) / 300);
    const endedAt = openedAt + 1_000 + randomInt(20_000);
    const price = randomInt(200_000, 800_000);
    const tokens = 1_000_000n * BigInt(randomInt(1, 500));
    const usdc = (tokens * BigInt(price)) / 1_000_000n;
    quotes.push({
      quote_id: idAt(openedAt - 1, randomBytes(10).toString("hex")),
      request_id: requests[n % requests.length] ?? "",
      maker_id: makers[n % MAKERS] ?? "",
      credential: makers[n % MAKERS] ?? "",
      asset: `venue_one:0x${(n % 20).toString(16)}`,
      amount: tokens,
      side: "Ask",
      price,
      usdc_amount: usdc,
      taker_fee: 0n,
      maker_fee: 0n,
      reserve_asset: "usdc",
      reserve: usdc,
      status: "cancelled",
      opened_at: openedAt,
      expires_at: openedAt + 60_000,
      opened_group: n,
      label: null,
      cancel_reason: null,
      replaced_by: null,
      ended_by: idAt(endedAt - 1, randomBytes(10).toString("hex")),
      ended_group: n + Math.floor((endedAt - openedAt) / 3),
      stuck_at: null,
      complement: null,
    });
  }
  return quotes.toSorted((a, b) => (a.quote_id < b.quote_id ? -1 : 1));
}
