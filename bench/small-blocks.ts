/**
 * Ledger pages of a reader with one entry in each seal: each entry is in a block of its own, so a
 * page opens as many blocks as it has entries.
 */
import { randomBytes } from "node:crypto";
import type { SealedTransfer } from "../src/archive/sealed-columns.ts";
import { reasonNumber, stepNumber } from "../src/ledger/codes.ts";
import { skipTransfers } from "../src/ledger/skip-transfers.ts";
import { type Bench, number, percentile } from "./figures.ts";
import { makePeople, type Person } from "./people.ts";
import { followAll, SealWriter, timed } from "./seals.ts";

const DEFAULT_BLOCKS = 5_000;
const QUICK_BLOCKS = 300;
const PAGES = 60;
const DAY_MS = 86_400_000;
const EVERY_MS = 17_000;
/** An odd amount is that of no transfer. */
const [AMOUNT, ABSENT] = [1_000_000, 1_000_001];

export const benchSmallBlocks: Bench = async ({ entries, quick, say, start }) => {
  const stack = await start();
  const [reader] = (await makePeople(stack, 1, ["usdc"])) as [Person];
  const blocks = entries ?? (quick ? QUICK_BLOCKS : DEFAULT_BLOCKS);
  const owner = reader.userId.replaceAll("-", "");
  const writer = new SealWriter(stack);
  const started = Date.now() - DAY_MS - blocks * EVERY_MS;
  for (let place = 1; place <= blocks; place++)
    await writer.add({
      quotes: [],
      transfers: [settled(owner, place, { started, left: blocks - place })],
    });
  await writer.finish([owner]);
  await stack.db.batch(
    skipTransfers(blocks).map(({ text, params }) => stack.db.prepare(text).bind(...params)),
  );
  const following = performance.now();
  await followAll(stack, reader, { seals: blocks, cursor: 2 * blocks + 2 });
  const took = performance.now() - following;
  say(`  ${number(blocks)} blocks, each followed in ${number(took / blocks)} ms`);
  const page: number[] = [];
  const none: number[] = [];
  for (let step = 0; step < PAGES; step++) {
    const place = Math.floor(2 * blocks * ((step * 0.618) % 1)) + 2;
    page.push(await timed(stack, reader, `limit=50&last_cursor=${Math.max(place, 120)}`));
  }
  for (let step = 0; step < 5; step++)
    none.push(await timed(stack, reader, `limit=50&min_amount=${ABSENT}`));
  return [
    {
      what: `ledger page of 50 blocks, at ${number(blocks)} blocks`,
      unit: "ms",
      ours: percentile(page, 0.5),
      target: { atMost: 150 },
      note: `p99 ${number(percentile(page, 0.99))} ms`,
    },
    { what: "amount filter, nothing fits", unit: "ms", ours: percentile(none, 0.5) },
  ];
};

/** A withdrawal that is settled: one entry of the owner, of whose withdrawals some are left. */
function settled(
  owner: string,
  id: number,
  { started, left }: { started: number; left: number },
): SealedTransfer {
  return {
    transfer_id: id,
    from_owner: owner,
    from_kind: "pending",
    to_owner: Buffer.from("external:local").toString("hex"),
    to_kind: "external",
    asset: "usdc",
    amount: BigInt(AMOUNT),
    reason: reasonNumber("withdrawal"),
    step: stepNumber("end"),
    line: 0,
    ref: randomBytes(16).toString("hex"),
    at: started + id * EVERY_MS,
    match_id: null,
    from_balance: BigInt(left * AMOUNT),
    to_balance: 0n,
  };
}
