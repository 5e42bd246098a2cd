/**
 * The only writer of the journal. Triggers (0003_journal.sql) number a transfer and fill in its
 * running balances (`transfers_fill`), move both balances or abort the batch (`transfers_post`),
 * and number new accounts (`accounts_number`).
 */
import type { Group } from "../platform/commit.ts";
import {
  atom,
  type Expr,
  expr,
  FALSE,
  join,
  literal,
  MAX_NATIVE,
  MAX_NATIVE_UNITS,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { type AccountKind, type Reason, reasonCode, type Step, stepCode } from "./codes.ts";

/** Owners of the house accounts. The owner of a user's account is the 16 bytes of the user id. */
export const FEES_OWNER: Expr = atom("CAST('fees' AS BLOB)");
/** Owes what the operator has lost. Its accounts are `external`, so they may be negative. */
export const LOSSES_OWNER: Expr = atom("CAST('losses' AS BLOB)");
/** The key of USDC as a literal. */
export const IN_USDC: Expr = atom("'usdc'");
/** Issues both tokens of a pair for USDC. `external`, because it owes the tokens. */
export function pairOwner(asset: Expr, complement: Expr): Expr {
  return expr`CAST('pair:' || min(${asset}, ${complement}) AS BLOB)`;
}
export function externalOwner(chain: string): Expr {
  return atom("CAST(? AS BLOB)", [`external:${chain}`]);
}

export type Posting = {
  readonly reason: Reason;
  readonly step: Step;
  /** `each`: as the source's column `from_kind` or `to_kind` says. */
  readonly from: AccountKind | "each";
  readonly to: AccountKind | "each";
  /**
   * A SELECT of `from_owner`, `to_owner` (BLOB), `asset` (TEXT), `amount` (INTEGER), `ref` (BLOB)
   * and `line` (INTEGER). Rows with amount 0 are skipped, so that a zero fee writes no transfer.
   */
  readonly source: Sql;
  /** The `to` accounts are known to exist. */
  readonly toExists?: true;
};

/**
 * Statements that post one transfer per source row. The `from` accounts must exist, except those of
 * the outside world. These and `to` accounts are created where they are missing.
 */
export function post(group: Group, posting: Posting): Sql[] {
  return postTogether(group, [posting]);
}

/**
 * As `post` for each in turn, in two statements. At most five, because D1 limits the terms of a
 * UNION. A posting from `external` counts twice.
 */
export function postTogether(group: Pick<Group, "at">, postings: readonly Posting[]): Sql[] {
  const opening = postings.filter(({ toExists }) => toExists !== true);
  const outside = postings.filter(({ from }) => from === "external");
  return [
    openAccounts([...outside.map(externalAccounts), ...opening.map(toAccounts)]),
    insertTransfers(group, ...postings),
  ];
}

/** As `post`, between accounts that are known to exist, such as those of a reserve. */
export function insertTransfers({ at }: Pick<Group, "at">, ...postings: readonly Posting[]): Sql {
  const rows = postings.map(
    ({ reason, step, from, to, source }, index) =>
      sql`SELECT ${literal(index)} AS posting, ${reasonCode(reason)} AS reason,
        ${stepCode(step)} AS step,
        ${from === "each" ? atom("o.from_kind") : kindName(from)} AS from_kind,
        ${to === "each" ? atom("o.to_kind") : kindName(to)} AS to_kind,
        o.from_owner, o.to_owner, o.asset, o.amount, o.ref, o.line
      FROM (${source}) o`,
  );
  // Explicit LEFT JOINs: a missing account must fail on NOT NULL, not drop the row.
  return sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
    SELECT f.account_id, t.account_id, s.amount, s.reason, s.ref, s.step, s.line, ${at}
    FROM (${join(rows, " UNION ALL ")}) s
    LEFT JOIN accounts f ON f.owner = s.from_owner AND f.asset = s.asset AND f.kind = s.from_kind
    LEFT JOIN accounts t ON t.owner = s.to_owner AND t.asset = s.asset AND t.kind = s.to_kind
    WHERE s.amount <> 0
    ORDER BY s.posting, s.ref, s.line`;
}

/** Creates those of the accounts `owner, asset, kind` that do not exist. */
function openAccounts(accounts: readonly Sql[]): Sql {
  return sql`INSERT INTO accounts (owner, asset, kind, balance)
    SELECT DISTINCT s.owner, s.asset, s.kind, 0 FROM (${join(accounts, " UNION ALL ")}) s
    WHERE NOT EXISTS (SELECT 1 FROM accounts a
      WHERE a.owner = s.owner AND a.asset = s.asset AND a.kind = s.kind)`;
}

/** A user's two sub-accounts are created together, so that available funds can be reserved. */
function toAccounts({ source, to }: Posting): Sql {
  const users = sql`SELECT 'available' AS kind UNION ALL SELECT 'pending'`;
  const kinds =
    to === "available" || to === "pending"
      ? users
      : to === "each"
        ? sql`${users} UNION ALL SELECT 'external'`
        : sql`SELECT ${kindName(to)} AS kind`;
  return sql`SELECT o.to_owner AS owner, o.asset, k.kind
    FROM (${source}) o, (${kinds}) k WHERE o.amount <> 0
    ${to === "each" ? sql`AND (k.kind = 'external') = (o.to_kind = 'external')` : sql``}`;
}

function externalAccounts({ source }: Posting): Sql {
  return sql`SELECT o.from_owner AS owner, o.asset, 'external' AS kind
    FROM (${source}) o WHERE o.amount <> 0`;
}

function kindName(kind: AccountKind): Expr {
  return atom(`'${kind}'`);
}

/** Scalar over an available account: what is not promised to open quotes. */
export function usable(): Expr {
  return expr`balance - promised`;
}

/** Condition: the user has at least this much available. Always false above 2^62. */
export function hasAvailable(userId: string, asset: string, amount: bigint): Expr {
  if (amount > MAX_NATIVE_UNITS) return FALSE;
  return ownerHasAvailable(uuid(userId), atom("?", [asset]), expr`${amount}`);
}

/** The same over columns. */
export function ownerHasAvailable(owner: Expr, asset: Expr, amount: Expr): Expr {
  return expr`EXISTS (SELECT 1 FROM accounts WHERE owner = ${owner} AND asset = ${asset}
    AND kind = 'available' AND ${usable()} >= ${amount})`;
}

/** Scalar: what the user has available, as decimal text. */
export function availableText(userId: string, asset: Expr): Expr {
  return expr`coalesce((SELECT CAST(${usable()} AS TEXT) FROM accounts a
    WHERE a.owner = ${uuid(userId)} AND a.asset = ${asset} AND a.kind = 'available'), '0')`;
}

/** Condition: both sub-accounts and `amount` fit one balance, so that a release always fits. */
export function canReceive(owner: Expr, asset: Expr, amount: Expr): Expr {
  return expr`coalesce((SELECT sum(balance) FROM accounts a
    WHERE a.owner = ${owner} AND a.asset = ${asset}), 0) <= ${MAX_NATIVE} - ${amount}`;
}

/** Condition: the sums of the owner's trades of an asset stay within their limit after one more. */
export function canTrade(
  owner: Expr,
  kind: Expr,
  { asset, amount, usdc }: { readonly asset: Expr; readonly amount: Expr; readonly usdc: Expr },
): Expr {
  return expr`NOT EXISTS (SELECT 1 FROM accounts a
    WHERE a.owner = ${owner} AND a.asset = ${asset} AND a.kind = ${kind}
      AND (a.traded > ${MAX_NATIVE} - ${amount}
        OR a.traded_usdc > ${MAX_NATIVE} - ${usdc}))`;
}
