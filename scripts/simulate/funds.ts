/** Funds that a user has from the start. */
import { announceDeposits } from "../../src/custody/custody-events.ts";
import { externalOwner, openExternalAccounts, post } from "../../src/ledger/post.ts";
import { commitOrThrow, newGroup } from "../../src/platform/commit.ts";
import { sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";

/** A deposit with its transfer, as the watcher credits it. */
export async function fund(
  db: D1Database,
  userId: string,
  asset: string,
  amount: bigint,
): Promise<void> {
  const depositId = uuidv7();
  const group = newGroup();
  const source = sql`SELECT ${externalOwner("polygon")} AS from_owner, d.user_id AS to_owner,
      d.asset, CAST(d.amount AS INTEGER) AS amount, d.deposit_id AS ref, 0 AS line
    FROM deposits d WHERE d.deposit_id = ${uuid(depositId)}`;
  await commitOrThrow(db, group, [
    sql`INSERT INTO deposits (deposit_id, chain, transaction_hash, token, ordinal, position,
        block_number, block_hash, address, user_id, asset, amount, required_confirmations, status,
        seen_group, detected_at, detected_group, credited_at, ended_group)
      VALUES (${uuid(depositId)}, 'polygon', ${uuid(depositId)}, x'00', 0, 0, 1, x'00', x'00',
        ${uuid(userId)}, ${asset}, ${amount.toString()}, 2, 'credited', ${group.seq}, ${group.at},
        ${group.seq}, ${group.at}, ${group.seq})`,
    openExternalAccounts(source),
    ...post(group, {
      reason: "deposit",
      step: "credit",
      from: "external",
      to: "available",
      source,
    }),
    ...announceDeposits(group),
  ]);
}
