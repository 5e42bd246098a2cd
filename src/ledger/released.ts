/** What of the journal is in the archive instead of the database (src/archive/release.ts). */
import { USDC } from "../assets/asset.ts";
import { expr, type Expr, raw, type Sql, sql, uuid } from "../platform/sql.ts";
import { ID_LEAD_MS } from "../platform/time.ts";

/** The last seal that readers take from the archive. */
const LAST_DELIVERED = raw(`FROM journal_seals
  INDEXED BY journal_seals_delivered WHERE delivered_at IS NOT NULL
  ORDER BY number DESC LIMIT 1`);

/** Scalar: the last transfer of that seal, or 0. */
export const DELIVERED: Expr = expr`coalesce((SELECT up_to_transfer ${LAST_DELIVERED}), 0)`;

/** Condition on an `id`: the record's transfers, released together, may all be in the archive. */
export const ARCHIVED_RECORD: Expr = expr`id < coalesce((
    SELECT unhex(printf('%012x', last_at + ${ID_LEAD_MS}) || '00000000000000000000')
    ${LAST_DELIVERED}), x'')
  AND NOT EXISTS (SELECT 1 FROM transfers t WHERE t.ref = id)`;

/** Scalar: ms. Requests and quotes with ids from before it may be in the archive. 0: none is. */
export const RECORDS_LEFT_BEFORE: Expr = expr`coalesce((SELECT sealed_at + ${ID_LEAD_MS} FROM journal_seals
  INDEXED BY journal_seals_released WHERE released_at IS NOT NULL
  ORDER BY number DESC LIMIT 1), 0)`;

/** Scalar: the same of matches. */
export const MATCHES_LEFT_BEFORE: Expr = expr`coalesce((SELECT last_at + ${ID_LEAD_MS} FROM journal_seals
  INDEXED BY journal_seals_matches_released WHERE matches_released_at IS NOT NULL
  ORDER BY number DESC LIMIT 1), 0)`;

/** The owner's last seal, and how far readers take rows of the kind from the archive. */
export type Archived = {
  readonly epoch: number;
  readonly number: number;
  readonly upTo: number;
  readonly lastAt: number;
};

/** Readers take entries from the archive as soon as they are delivered, and matches when they left. */
const BORDERS = {
  entries: raw("journal_seals_delivered WHERE delivered_at IS NOT NULL"),
  matches: raw("journal_seals_matches_released WHERE matches_released_at IS NOT NULL"),
};

/**
 * Condition: seals have moved the user's USDC, but nothing says which. Then the history is cut, and
 * a page of it would be short. A user may have accounts of thousands of other assets.
 */
function historyIsCut(userId: string): Expr {
  return expr`NOT EXISTS (SELECT 1 FROM sealed_owners WHERE owner = ${uuid(userId)})
    AND EXISTS (SELECT 1 FROM accounts a CROSS JOIN sealed_balances b ON b.account_id = a.account_id
      WHERE a.owner = ${uuid(userId)} AND a.asset = ${USDC})`;
}

/** Selects at most one row, `Archived`: rows of the user since `from` may be archived only. */
export function archivedRows(userId: string, kind: keyof typeof BORDERS, from = 0): Sql {
  return sql`SELECT s.epoch, s.number, b.up_to_transfer AS upTo, b.last_at AS lastAt
    FROM (SELECT number, up_to_transfer, last_at FROM journal_seals INDEXED BY ${BORDERS[kind]}
        ORDER BY number DESC LIMIT 1) b
      CROSS JOIN sealed_owners o ON o.owner = ${uuid(userId)}
      CROSS JOIN journal_seals s ON s.number = o.last_seal
    WHERE o.first_seal <= b.number AND b.last_at >= ${from}
    UNION ALL SELECT 0, 0, 0, 0 WHERE ${historyIsCut(userId)}`;
}

/** Selects at most one row: the user's last seal. There is no seal 0, for a history that is cut. */
export function lastSealOf(userId: string): Sql {
  return sql`SELECT s.epoch, s.number FROM sealed_owners o
    CROSS JOIN journal_seals s ON s.number = o.last_seal WHERE o.owner = ${uuid(userId)}
    UNION ALL SELECT 0, 0 WHERE ${historyIsCut(userId)}`;
}
