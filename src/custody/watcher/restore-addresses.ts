/**
 * Restores deposit addresses that are newer than a restored backup, from the watcher's recovery
 * records. The blocks since then are read again, without moving the cursor, to find deposits to
 * them. A deposit that is found twice stays one. A lost user is restored with the same id, frozen
 * and unable to log in, so that their funds are accounted for. An operator returns the account once
 * the user has proved their identity.
 */
import { auditRow, recordBy } from "../../audit/audit.ts";
import { readCursor } from "../../chain/chain-cursor.ts";
import { type Endpoint, readHeader } from "../../chain/rpc.ts";
import { askAgreed } from "../../chain/witnesses.ts";
import { commitOrThrow, newGroup } from "../../platform/commit.ts";
import { all, readUuid, sql, uuid } from "../../platform/sql.ts";
import { type WatcherContext } from "./commit-move.ts";

/** The recovery record of a deposit address. Hex without `0x`, lower case. */
export type AddressRecord = {
  readonly address: string;
  readonly salt: string;
  readonly userId: string;
  readonly nonce: number;
  /** Unix milliseconds. */
  readonly createdAt: number;
};

/** Allowed difference between the chain's clock and ours. Reading too many blocks is harmless. */
const CLOCK_MARGIN_MS = 600_000;
const MAX_REPORTED = 500;

export async function missingAddresses(
  { db, chain }: WatcherContext,
  records: readonly AddressRecord[],
): Promise<readonly AddressRecord[]> {
  const rows = await all<{ address: string }>(
    db,
    sql`SELECT j.value ->> 'address' AS address FROM json_each(${JSON.stringify(records)}) j
      WHERE NOT EXISTS (SELECT 1 FROM deposit_addresses a
        WHERE a.chain = ${chain.chain} AND a.address = unhex(j.value ->> 'address'))`,
  );
  const missing = new Set(rows.map(({ address }) => address));
  return records.filter(({ address }) => missing.has(address));
}

/** Inserts the missing addresses, and their users if these are missing, too. */
export async function restoreAddresses(
  { db, chain }: WatcherContext,
  missing: readonly AddressRecord[],
): Promise<void> {
  const users = JSON.stringify([...new Set(missing.map(({ userId }) => userId))]);
  const lost = await all<{ id: string }>(
    db,
    sql`SELECT j.value AS id FROM json_each(${users}) j
      WHERE NOT EXISTS (SELECT 1 FROM users u WHERE u.user_id = unhex(j.value, '-'))`,
  );
  for (const { id } of lost) await restoreUserFrozen(db, id);
  await commitOrThrow(db, newGroup(), [
    sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
        SELECT ${chain.chain}, unhex(j.value ->> 'address'), unhex(j.value ->> 'userId', '-'),
          j.value ->> 'nonce', unhex(j.value ->> 'salt'), j.value ->> 'createdAt'
        FROM json_each(${JSON.stringify(missing)}) j
        WHERE NOT EXISTS (SELECT 1 FROM deposit_addresses a WHERE a.chain = ${chain.chain} AND (
          a.address = unhex(j.value ->> 'address')
          OR (a.user_id = unhex(j.value ->> 'userId', '-') AND a.nonce = j.value ->> 'nonce')))`,
  ]);
}

/** Inserts a user who cannot log in: no hash is empty, no email ends in `.invalid` (RFC 2606). */
async function restoreUserFrozen(db: D1Database, userId: string): Promise<void> {
  const group = newGroup();
  const absent = sql`NOT EXISTS (SELECT 1 FROM users WHERE user_id = ${uuid(userId)})`;
  await commitOrThrow(db, group, [
    auditRow(
      recordBy("operator:restore", "restored", { userId, subjectId: userId }),
      group.at,
      absent,
    ),
    sql`INSERT INTO users (user_id, email, password_hash, session_epoch, frozen_at, created_at)
      SELECT ${uuid(userId)}, ${`${userId}@lost.invalid`}, '', 0, ${group.at}, ${group.at}
      WHERE ${absent}`,
  ]);
}

/** The last confirmed block before an instant, less the margin. Searches some 25 headers. */
export async function blockBefore(
  { db, chain }: WatcherContext,
  createdAt: number,
): Promise<number> {
  const cursor = await readCursor(db, chain.chain);
  if (cursor === undefined) throw new Error(`${chain.chain} has not been read yet`);
  const moment = BigInt(Math.floor((createdAt - CLOCK_MARGIN_MS) / 1_000));
  const search = async (endpoint: Endpoint) => {
    let low = Math.max(chain.start_block - 1, 0);
    let high = cursor.confirmed.number;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((await readHeader(endpoint, middle)).timestamp < moment) low = middle;
      else high = middle - 1;
    }
    return low;
  };
  // Deposits below the block are not looked for, so one endpoint must not move it up.
  return (await askAgreed(chain, search)).value;
}

/** Reads the restored users who have not received their account yet. */
export async function readLostUsers(db: D1Database, chain: string) {
  const rows = await all<{ user_id: string; address: string }>(
    db,
    sql`SELECT hex(u.user_id) AS user_id, lower(hex(a.address)) AS address
      FROM users u JOIN deposit_addresses a ON a.user_id = u.user_id
      WHERE a.chain = ${chain} AND u.password_hash = '' AND u.email LIKE '%@lost.invalid'
      LIMIT ${MAX_REPORTED}`,
  );
  return [...Map.groupBy(rows, (row) => row.user_id)].map(([id, of]) => ({
    user_id: readUuid(id),
    addresses: of.map((row) => `0x${row.address}`),
  }));
}
