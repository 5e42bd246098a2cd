/**
 * Reports that a chain has stopped finalizing blocks. How far `finalized` is behind the head says
 * nothing about that, because it is normally hundreds of blocks behind on some chains. On a chain
 * without `finalized` the head that enough endpoints have reached counts. It stands still, too,
 * while one of two endpoints is stuck, although the other one shows new blocks.
 */
import { clearAlert, raiseAlert } from "../../platform/alert.ts";
import type { Heights } from "../../chain/follow-head.ts";
import { NOW } from "../../platform/commit.ts";
import { all, first, sql } from "../../platform/sql.ts";
import type { WatcherContext } from "./commit-move.ts";

/** Stores when that block last rose, and raises the alert if that is too long ago. */
export async function alertFinality(
  { db, chain }: Pick<WatcherContext, "db" | "chain">,
  { head, finalized }: Pick<Heights, "head" | "finalized">,
): Promise<void> {
  const height = finalized ?? head;
  const known = await first<{ height: number | null; stalled: number; open: number }>(
    db,
    sql`SELECT finalized_number AS height,
        coalesce(finalized_at < ${NOW} - ${chain.finality_stall_secs * 1_000}, 0) AS stalled,
        EXISTS (SELECT 1 FROM alerts WHERE kind = 'finality_stalled' AND subject = c.chain
          AND resolved_at IS NULL) AS open
      FROM chain_cursors c WHERE chain = ${chain.chain}`,
  );
  if (known === undefined) return;
  // A stored number above the head came from a node that made it up.
  const rose = known.height === null || known.height < height || known.height > head;
  if (rose) {
    await all(
      db,
      sql`UPDATE chain_cursors SET finalized_number = ${height}, finalized_at = ${NOW}
        WHERE chain = ${chain.chain}`,
    );
    if (known.open === 1) await clearAlert(db, "finality_stalled", chain.chain);
  } else if (known.stalled === 1 && known.open === 0) {
    const secs = chain.finality_stall_secs;
    const stalled =
      finalized === null
        ? `the head that enough endpoints have reached has been at block ${head} for more than ` +
          `${secs} seconds. Compare the endpoints, and replace one that is stuck in RPC_URLS: ` +
          "operator chain status"
        : `finalized has been at block ${known.height} for more than ${secs} seconds, the head is ` +
          `at ${head}`;
    await raiseAlert(db, "finality_stalled", chain.chain, `crediting waits: ${stalled}`);
  }
}
