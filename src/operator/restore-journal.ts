/**
 * The part of `restore` that concerns the sealer, whose memory no restore of the database touches.
 */
import { and, eq, isNull } from "drizzle-orm";
import { SEALER_NAME } from "../archive/sealer-name.ts";
import { skipTransfers } from "../ledger/skip-transfers.ts";
import { near } from "../platform/near.ts";
import { read } from "../platform/read.ts";
import { prepare, TRUE } from "../platform/sql.ts";
import { alerts } from "../platform/tables.ts";
import { SEQUENCE_JUMP, skipEvents } from "../streams/skip-events.ts";

/** The database lacks what the sealer remembers, or the archive contradicts the database. */
export async function isSealerHalted(env: Env): Promise<boolean> {
  if ((await near(env, env.SEALER, SEALER_NAME).lost()) !== null) return true;
  const mismatches = await read(env.DB, ({ select }) =>
    select({ kind: alerts.kind })
      .from(alerts)
      .where(and(eq(alerts.kind, "seal_mismatch"), isNull(alerts.resolvedAt))),
  );
  return mismatches.length > 0;
}

/**
 * Lets the sealer continue in a new epoch, above every transfer that it has seen. Undefined if it
 * is not halted and the operator does not insist: the sealer does not notice the loss of what was
 * posted after its last round.
 */
export async function restoreJournal(
  env: Env,
  insists: boolean,
): Promise<{ epoch: number; sealed: number } | undefined> {
  if (!insists && !(await isSealerHalted(env))) return undefined;
  const sealer = near(env, env.SEALER, SEALER_NAME);
  // The sealer has not seen what was posted after its last round, and events are in no seal.
  const skipped = (await sealer.highestTransfer()) + SEQUENCE_JUMP;
  const statements = [...skipTransfers(skipped), ...skipEvents(TRUE)];
  // First, so that a failure in between leaves the sealer halted.
  await env.DB.batch(statements.map((statement) => prepare(env.DB, statement)));
  return sealer.reopen();
}
