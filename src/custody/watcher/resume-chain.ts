/** Carries out the operator's `chain resume` after the review of a halt. */
import { readCursor } from "../../chain/chain-cursor.ts";
import { type Endpoint, readHead, readHeader } from "../../chain/rpc.ts";
import { askAgreed } from "../../chain/witnesses.ts";
import { commitOrThrow, newGroup } from "../../platform/commit.ts";
import { blob, expr, first, sql } from "../../platform/sql.ts";
import type { WatcherContext } from "./commit-move.ts";

/**
 * Accepts the chain's current block at the confirmed height and continues above it. Deposits that a
 * deep reorg added or removed below that height must be handled during the review. A halt that is
 * newer than the command stays, because the operator has not reviewed it.
 */
export async function resumeChain({ db, chain }: WatcherContext): Promise<void> {
  const command = await first<{ id: number; at: number }>(
    db,
    sql`SELECT command_id AS id, at FROM chain_commands
      WHERE chain = ${chain.chain} AND kind = 'resume_chain' AND done_group IS NULL LIMIT 1`,
  );
  const cursor = await readCursor(db, chain.chain);
  if (command === undefined || cursor === undefined) return;
  const readAnchor = async (endpoint: Endpoint) => ({
    head: (await readHead(endpoint, cursor.confirmed.number)).number,
    confirmed: await readHeader(endpoint, cursor.confirmed.number),
  });
  const { value: anchor } = await askAgreed(
    chain,
    readAnchor,
    0,
    ({ confirmed }) => confirmed.hash,
  );
  const group = newGroup();
  const halted = expr`EXISTS (SELECT 1 FROM chain_cursors
    WHERE chain = ${chain.chain} AND halted_at IS NOT NULL)`;
  await commitOrThrow(db, group, [
    sql`UPDATE chain_cursors SET halted_at = NULL, halt_reason = NULL,
        confirmed_hash = ${blob(anchor.confirmed.hash)},
        scanned_number = confirmed_number, scanned_hash = ${blob(anchor.confirmed.hash)},
        head_number = ${anchor.head}, moved_group = ${group.seq}, moved_at = ${group.at}
      WHERE chain = ${chain.chain} AND halted_at <= ${command.at}
        AND confirmed_number = ${cursor.confirmed.number}`,
    // Without a halt, too, because a faulty endpoint may have reported a head far ahead.
    sql`UPDATE chain_cursors SET head_number = ${anchor.head} WHERE chain = ${chain.chain}`,
    sql`DELETE FROM chain_blocks WHERE chain = ${chain.chain}`,
    sql`UPDATE alerts SET resolved_at = ${group.at}
      WHERE kind = 'chain_halted' AND subject = ${chain.chain} AND resolved_at IS NULL
        AND NOT ${halted}`,
    sql`UPDATE chain_commands SET done_group = ${group.seq},
        result = iif(${halted}, 'halted again', 'resumed')
      WHERE command_id = ${command.id}`,
  ]);
}
