/** Random slices of a journal as the sealer chooses them, for tests of their format. */
import * as fc from "fast-check";
import { REASONS } from "../../src/ledger/codes.ts";
import { GENESIS } from "../../src/archive/footer.ts";
import type {
  SealedMatch,
  SealedQuote,
  SealedRequest,
  SealedTransfer,
} from "../../src/archive/sealed-columns.ts";
import type { Seal } from "../../src/archive/seal-format.ts";

const STARTED_AT = 1_764_551_300_000;

function hexText(length: number): fc.Arbitrary<string> {
  return fc
    .uint8Array({ minLength: length, maxLength: length })
    .map((bytes) => Buffer.from(bytes).toString("hex"));
}

/** A UUID v7 of the given instant, as hexadecimal. */
export function idAt(at: number, random: string): string {
  return at.toString(16).padStart(12, "0") + random;
}

const id = fc
  .tuple(fc.nat(100_000), hexText(10))
  .map(([after, random]) => idAt(STARTED_AT + after, random));
const user = fc.constantFrom("aa", "bb", "cc").map((byte) => byte.repeat(16));
const house = fc
  .constantFrom("fees", "external:polygon")
  .map((text) => Buffer.from(text).toString("hex"));
const owner = fc.oneof({ weight: 4, arbitrary: user }, { weight: 1, arbitrary: house });
const asset = fc.constantFrom("usdc", "venue_one:0x1", `venue_two:0x${"f".repeat(64)}`);
const kind = fc.constantFrom("available", "pending", "external", "fees");
const units = fc.bigInt({ min: 1n, max: 2n ** 62n });
const balance = fc.oneof(fc.bigInt({ min: -(2n ** 62n), max: 2n ** 62n }), fc.constant(0n));
const side = fc.constantFrom("Bid", "Ask");
const label = fc.option(fc.constantFrom("a", "~".repeat(64)));
const instant = fc.nat(1_000_000).map((after) => STARTED_AT + after);
const life = fc.record({
  opened_at: instant,
  expires_at: instant,
  opened_group: fc.nat(),
  ended_by: fc.option(id),
  ended_group: fc.nat(),
  stuck_at: fc.option(instant),
});

const transfer: fc.Arbitrary<Omit<SealedTransfer, "transfer_id">> = fc.record({
  from_owner: owner,
  from_kind: kind,
  to_owner: owner,
  to_kind: kind,
  asset,
  amount: units,
  reason: fc.integer({ min: 1, max: REASONS.length }),
  step: fc.integer({ min: 1, max: 5 }),
  line: fc.nat(1),
  ref: id,
  match_id: fc.option(id),
  at: instant,
  from_balance: balance,
  to_balance: balance,
});

const request: fc.Arbitrary<SealedRequest> = fc
  .tuple(
    fc.record({
      request_id: id,
      requester_id: user,
      asset,
      amount: fc.option(fc.bigInt({ min: 0n, max: 2n ** 256n - 1n })),
      usdc_amount: fc.option(units),
      side: fc.constantFrom("Bid", "Ask", "TwoWay"),
      disclosed: fc.nat(1),
      status: fc.constantFrom("matched", "cancelled", "expired"),
      label,
    }),
    life,
  )
  .map(([terms, times]) => ({ ...terms, ...times }));

const quote: fc.Arbitrary<SealedQuote> = fc
  .tuple(
    fc.record({
      quote_id: id,
      request_id: id,
      maker_id: user,
      credential: id,
      asset,
      amount: units,
      side,
      price: fc.integer({ min: 1, max: 1_000_000 }),
      usdc_amount: units,
      taker_fee: fc.bigInt({ min: 0n, max: 2n ** 62n }),
      maker_fee: fc.bigInt({ min: 0n, max: 2n ** 62n }),
      reserve_asset: asset,
      reserve: units,
      cancel_reason: fc.option(fc.constantFrom("replaced", "timeout")),
      replaced_by: fc.option(id),
      status: fc.constantFrom("accepted", "cancelled", "expired", "rejected"),
      complement: fc.option(asset),
      label,
    }),
    life,
  )
  .map(([terms, times]) => ({ ...terms, ...times }));

const match: fc.Arbitrary<SealedMatch> = fc.record({
  match_id: id,
  request_id: id,
  quote_id: id,
  requester_id: user,
  maker_id: user,
  asset,
  side,
  amount: units,
  price: fc.integer({ min: 1, max: 1_000_000 }),
  usdc_amount: units,
  taker_fee: fc.bigInt({ min: 0n, max: 2n ** 62n }),
  maker_fee: fc.bigInt({ min: 0n, max: 2n ** 62n }),
  at: instant,
  matched_group: fc.nat(),
  requester_label: label,
  maker_label: label,
  complement: fc.option(asset),
});

function sortedBy<Row>(rows: fc.Arbitrary<Row>, idOf: (row: Row) => string): fc.Arbitrary<Row[]> {
  return fc
    .uniqueArray(rows, { selector: idOf, maxLength: 12 })
    .map((all) => all.toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1)));
}

/** Any slice that the columns of D1 could contain, sound or not. */
export const slices: fc.Arbitrary<Seal> = fc
  .record({
    epoch: fc.nat(1_000),
    number: fc.integer({ min: 1, max: 1_000_000 }),
    previous: fc.oneof(fc.constant(GENESIS), hexText(32)),
    after: fc.nat(2 ** 40),
    beyond: fc.nat(10),
    afterGroup: fc.nat(),
    groups: fc.nat(1_000),
    rows: fc.array(transfer, { maxLength: 40 }),
    gaps: fc.infiniteStream(fc.nat(3)),
    requests: sortedBy(request, (row) => row.request_id),
    quotes: sortedBy(quote, (row) => row.quote_id),
    matches: sortedBy(match, (row) => row.match_id),
  })
  .map(({ rows, gaps, beyond, groups, ...head }) => {
    let last = head.after;
    const transfers = rows.map((row) => ({
      ...row,
      transfer_id: (last += 1 + (gaps.next().value ?? 0)),
    }));
    return {
      ...head,
      upTo: last + beyond,
      upToGroup: head.afterGroup + groups,
      transfers,
    };
  });
