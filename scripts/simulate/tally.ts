/** What a seed reached. */
import type { Database } from "./database.ts";
import type { Reading } from "./reading.ts";

export function tallyOf(
  database: Database,
  { pages, refused }: Reading,
  frames: number,
): Readonly<Record<string, number>> {
  const count = (from: string) => database.count(`SELECT count(*) FROM ${from}`);
  return {
    matches: count("every_matches"),
    credited: count("deposits WHERE status = 'credited'"),
    settled: count("withdrawals WHERE status = 'settled'"),
    failed: count("withdrawals WHERE status = 'failed'"),
    cancelled: count("withdrawals WHERE status = 'cancelled'"),
    approved: count("withdrawals WHERE approved_at IS NOT NULL"),
    "ended by a protection": count("every_quotes WHERE cancel_reason = 'protection'"),
    "ended by a timer": count("every_quotes WHERE cancel_reason = 'timeout'"),
    "ended by a disconnect": count("every_quotes WHERE cancel_reason = 'disconnect'"),
    replaced: count("every_quotes WHERE cancel_reason = 'replaced'"),
    outbid: count("every_quotes WHERE cancel_reason = 'outbid'"),
    frames,
    seals: count("journal_seals"),
    released: count("released_transfers"),
    pages,
    "pages refused": refused,
  };
}
