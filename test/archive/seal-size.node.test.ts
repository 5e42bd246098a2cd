/** What a sealed quote costs. The archive only grows. */
import { randomBytes, randomInt } from "node:crypto";
import { expect, it } from "vitest";
import type { SealedQuote, SealedTransfer } from "../../src/archive/records.ts";
import { GENESIS } from "../../src/archive/footer.ts";
import { encodeSeal } from "../../src/archive/seal-format.ts";
import { END_STEP, idAt, RELEASE, RESERVE_RFQ, RESERVE_STEP } from "./journal-model.ts";

const STARTED_AT = 1_764_551_300_000;
const QUOTES = 5_000;
const MAKERS = 40;

/** Bytes of one released quote: its two transfers, and its own record. */
const MOST_BYTES_A_TRANSFER = 13;
const MOST_BYTES_A_QUOTE = 52;

it(`takes less than ${MOST_BYTES_A_TRANSFER} bytes for a transfer of a released quote`, async () => {
  const bytes = await bytesOf(quotesInTurn(), false);
  expect(bytes / (2 * QUOTES)).toBeLessThan(MOST_BYTES_A_TRANSFER);
});

it(`takes less than ${MOST_BYTES_A_QUOTE} bytes for a quote with both transfers`, async () => {
  const bytes = await bytesOf(quotesInTurn(), true);
  expect(bytes / QUOTES).toBeLessThan(MOST_BYTES_A_QUOTE);
});

async function bytesOf(
  { transfers, quotes }: { transfers: SealedTransfer[]; quotes: SealedQuote[] },
  withRecords: boolean,
): Promise<number> {
  const { bytes } = await encodeSeal({
    epoch: 1,
    number: 1,
    previous: GENESIS,
    after: 0,
    upTo: 2 * QUOTES,
    afterGroup: 0,
    upToGroup: 2 * QUOTES,
    transfers,
    requests: [],
    quotes: withRecords ? quotes : [],
    matches: [],
  });
  return bytes.length;
}

/** Makers quote in turn at 300 quotes a second. Each quote is cancelled after some seconds. */
function quotesInTurn() {
  const makers = Array.from({ length: MAKERS }, () => ({
    id: idAt(STARTED_AT, randomBytes(10).toString("hex")),
    available: 10n ** 12n,
    pending: 0n,
  }));
  const requests = Array.from({ length: 500 }, () =>
    idAt(STARTED_AT, randomBytes(10).toString("hex")),
  );
  const events: { at: number; quote: SealedQuote; ends: boolean }[] = [];
  for (let n = 0; n < QUOTES; n++) {
    const openedAt = STARTED_AT + Math.floor((n * 1_000) / 300);
    const endedAt = openedAt + 1_000 + randomInt(20_000);
    const price = randomInt(200_000, 800_000);
    const tokens = 1_000_000n * BigInt(randomInt(1, 500));
    const usdc = (tokens * BigInt(price)) / 1_000_000n;
    const quote: SealedQuote = {
      quote_id: idAt(openedAt - 1, randomBytes(10).toString("hex")),
      request_id: requests[n % requests.length] ?? "",
      maker_id: makers[n % MAKERS]?.id ?? "",
      credential: makers[n % MAKERS]?.id ?? "",
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
    };
    events.push({ at: openedAt, quote, ends: false }, { at: endedAt, quote, ends: true });
  }
  const quotes = events.filter(({ ends }) => !ends).map(({ quote }) => quote);
  const transfers = events
    .toSorted((a, b) => a.at - b.at)
    .map(({ at, quote, ends }, position): SealedTransfer => {
      const maker = makers.find(({ id }) => id === quote.maker_id);
      if (maker === undefined) throw new Error("the quote has a maker");
      const moved = ends ? -quote.reserve : quote.reserve;
      maker.available -= moved;
      maker.pending += moved;
      const available = { owner: maker.id, kind: "available" } as const;
      const pending = { owner: maker.id, kind: "pending" } as const;
      return {
        transferId: position + 1,
        from: ends ? pending : available,
        to: ends ? available : pending,
        asset: "usdc",
        amount: quote.reserve,
        reason: ends ? RELEASE : RESERVE_RFQ,
        step: ends ? END_STEP : RESERVE_STEP,
        line: 0,
        ref: quote.quote_id,
        at,
        fromBalance: ends ? maker.pending : maker.available,
        toBalance: ends ? maker.available : maker.pending,
      };
    });
  return { transfers, quotes: quotes.toSorted((a, b) => (a.quote_id < b.quote_id ? -1 : 1)) };
}
