/**
 * Who may allocate nonces. A new payer takes the lease from whoever had it; the guards of the older one, which may still
 * be running, stop firing from that commit on.
 */
import { alertRow } from "../../chain/alert.ts";
import { commit, newGroup } from "../../platform/commit.ts";
import { first, type Sql, sql, uuid } from "../../platform/sql.ts";

export async function takeLease(db: D1Database, chain: string, token: string): Promise<void> {
  const group = newGroup();
  await commit(db, group, [
    sql`INSERT INTO payer_leases (chain, token, taken_at) VALUES (${chain}, ${uuid(token)}, ${group.at})
      ON CONFLICT (chain) DO UPDATE SET token = excluded.token, taken_at = excluded.taken_at`,
  ]);
}

export type Lease = { readonly held: boolean; readonly haltReason: string | null };

export async function readLease(db: D1Database, chain: string, token: string): Promise<Lease> {
  const row = await first<{ held: number; reason: string | null }>(
    db,
    sql`SELECT token = ${uuid(token)} AS held, halt_reason AS reason FROM payer_leases WHERE chain = ${chain}`,
  );
  return { held: row?.held === 1, haltReason: row?.reason ?? null };
}

/** Condition for guards that write down what the chain has shown; a halted payer may still do that. */
export function hasLease(chain: string, token: string): Sql {
  return sql`EXISTS (SELECT 1 FROM payer_leases WHERE chain = ${chain} AND token = ${uuid(token)})`;
}

/** Condition for guards that sign a void: it pays nothing, so a halted payer may make it, and a review may need it. */
export function mayVoid(chain: string, token: string): Sql {
  return sql`${hasLease(chain, token)} AND EXISTS (SELECT 1 FROM chain_cursors WHERE chain = ${chain} AND halted_at IS NULL)`;
}

/** Condition for every other guard that signs. */
export function mayPay(chain: string, token: string): Sql {
  return sql`EXISTS (SELECT 1 FROM payer_leases WHERE chain = ${chain} AND token = ${uuid(token)} AND halted_at IS NULL)
    AND EXISTS (SELECT 1 FROM chain_cursors WHERE chain = ${chain} AND halted_at IS NULL)`;
}

/** Stops paying on a chain, crediting goes on: something about the vault's count or the records does not add up. */
export async function haltPayer(db: D1Database, chain: string, reason: string): Promise<void> {
  const group = newGroup();
  await commit(db, group, [
    sql`UPDATE payer_leases SET halted_at = ${group.at}, halt_reason = ${reason} WHERE chain = ${chain} AND halted_at IS NULL`,
    alertRow({ kind: "payer_halted", subject: chain, detail: reason, at: group.at }),
  ]);
}
