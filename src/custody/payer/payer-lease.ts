/**
 * Decides which payer instance may allocate nonces. A new instance takes the lease. From that
 * commit on, no guard of an older instance applies, even if it is still running.
 */
import { alertRow } from "../../platform/alert.ts";
import { commit, commitOrThrow, type Group, newGroup } from "../../platform/commit.ts";
import { type Expr, expr, first, type Sql, sql, uuid } from "../../platform/sql.ts";
import type { PayerContext } from "./payer-context.ts";

export async function takeLease(db: D1Database, chain: string, token: string): Promise<void> {
  const group = newGroup();
  await commit(db, group, [
    sql`INSERT INTO payer_leases (chain, token, taken_at)
      VALUES (${chain}, ${uuid(token)}, ${group.at})
      ON CONFLICT (chain) DO UPDATE SET token = excluded.token, taken_at = excluded.taken_at`,
  ]);
}

export type Lease = { readonly held: boolean; readonly haltReason: string | null };

export async function readLease(db: D1Database, chain: string, token: string): Promise<Lease> {
  const lease = await first<{ held: number; haltReason: string | null }>(
    db,
    sql`SELECT token = ${uuid(token)} AS held, halt_reason AS haltReason FROM payer_leases
      WHERE chain = ${chain}`,
  );
  return { held: lease?.held === 1, haltReason: lease?.haltReason ?? null };
}

/** Guard condition for recording what the chain has shown. A halted payer may do that. */
export function hasLease(chain: string, token: string): Sql {
  return sql`EXISTS (SELECT 1 FROM payer_leases WHERE chain = ${chain} AND token = ${uuid(token)})`;
}

/** Guard condition for signing a void. A halted payer may do that, because a void pays nothing. */
export function mayVoid(chain: string, token: string): Sql {
  return sql`${hasLease(chain, token)} AND EXISTS (
    SELECT 1 FROM chain_cursors WHERE chain = ${chain} AND halted_at IS NULL)`;
}

/** Guard condition for signing anything else. */
export function mayPay(chain: string, token: string): Sql {
  return sql`${mayVoid(chain, token)} AND NOT ${isHalted(chain)}`;
}

/** Condition: an operator or a shortfall has paused withdrawals. */
export const PAUSED: Expr = expr`EXISTS (
  SELECT 1 FROM kill_switches WHERE name = 'withdrawals_paused')`;

/** Condition: the payer of the chain is halted. Balances may lack what was paid, as after a restore. */
export function isHalted(chain: string | Expr): Expr {
  return expr`EXISTS (SELECT 1 FROM payer_leases l
    WHERE l.chain = ${chain} AND l.halted_at IS NOT NULL)`;
}

/** Characters after which further reasons are not kept. A thief can cause one with every block. */
const MAX_REASONS = 2_000;

/**
 * Statements that stop payments on a chain because vault and database differ. Deposits are still
 * credited. A reason that a halted payer finds is added to the others, and makes the halt newer, so
 * that no `chain resume` ends it that was given without knowing it.
 */
export function haltRows(
  group: Group,
  chain: string,
  { reason, when }: { readonly reason: string | Expr; readonly when: Sql },
): Sql[] {
  const halted = sql`EXISTS (SELECT 1 FROM payer_leases
    WHERE chain = ${chain} AND halted_at = ${group.at})`;
  const reasons = expr`SELECT halt_reason FROM payer_leases WHERE chain = ${chain}`;
  return [
    sql`UPDATE payer_leases SET halted_at = ${group.at},
        halt_reason = CASE WHEN halt_reason IS NULL THEN ${reason}
          WHEN length(halt_reason) < ${MAX_REASONS} THEN halt_reason || '; ' || ${reason}
          ELSE replace(halt_reason, '; and more', '') || '; and more' END
      WHERE chain = ${chain} AND instr(coalesce(halt_reason, ''), ${reason}) = 0 AND ${when}`,
    sql`UPDATE alerts SET detail = ${reasons}
      WHERE kind = 'payer_halted' AND subject = ${chain} AND resolved_at IS NULL AND ${halted}`,
    alertRow(group, "payer_halted", chain, reasons, halted),
  ];
}

/** Halts the payer, unless another instance has taken the lease since this one has looked. */
export async function haltPayer(
  { db, chain: { chain }, token }: Pick<PayerContext, "db" | "chain" | "token">,
  reason: string,
): Promise<void> {
  const group = newGroup();
  await commitOrThrow(db, group, haltRows(group, chain, { reason, when: hasLease(chain, token) }));
}
