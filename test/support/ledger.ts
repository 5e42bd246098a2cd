/** New assets, funds and balances. */
import { env } from "cloudflare:workers";
import { randomBytes } from "node:crypto";
import { assetKey, type AssetKey } from "../../src/assets/asset.ts";
import type { Venue } from "../../src/platform/venues.ts";
import { externalOwner, openExternalAccounts, post } from "../../src/ledger/post.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { commit, newGroup } from "../../src/platform/commit.ts";
import { blob, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";

/** An outcome token. Each key names a book. */
export type TestAsset = {
  readonly venue_id: Venue;
  readonly asset_id: string;
  readonly key: AssetKey;
};

/** An outcome token that no other test uses. */
export function newAsset(venue: Venue = "venue_one"): TestAsset {
  const assetId = `0x${BigInt(`0x${uuidv7().replaceAll("-", "")}`).toString(16)}`;
  return { venue_id: venue, asset_id: assetId, key: assetKey({ venue, assetId }) };
}

/** An address on a chain that no other test uses. */
export function newAddress(): string {
  return randomHex(20);
}

export type Funded = { readonly depositId: string; readonly transactionHash: string };

/** Credits an amount as the watcher does: a deposit and its transfer, in one batch. */
export async function fund(
  userId: string,
  asset: AssetKey,
  amount: bigint,
  { chain = "local", db = env.DB }: { chain?: string; db?: D1Database } = {},
): Promise<Funded> {
  const depositId = uuidv7();
  const transactionHash = randomHex(32);
  const group = newGroup();
  const source: Sql = sql`SELECT ${externalOwner(chain)} AS from_owner, d.user_id AS to_owner,
      d.asset, CAST(d.amount AS INTEGER) AS amount, d.deposit_id AS ref, 0 AS line
    FROM deposits d WHERE d.deposit_id = ${uuid(depositId)}`;
  const outcome = await commit(db, group, [
    sql`INSERT INTO deposits (deposit_id, chain, transaction_hash, token, ordinal, position,
        block_number, block_hash, address, user_id, asset, amount, required_confirmations, status,
        seen_group, detected_at, detected_group, credited_at, ended_group)
      VALUES (${uuid(depositId)}, ${chain}, ${blob(transactionHash)}, ${blob(randomHex(20))}, 0, 0,
        1, ${blob(randomHex(32))}, ${blob(randomHex(20))}, ${uuid(userId)}, ${asset},
        ${amount.toString()}, 2, 'credited', ${group.seq}, ${group.at}, ${group.seq}, ${group.at},
        ${group.seq})`,
    openExternalAccounts(source),
    ...post(group, {
      reason: "deposit",
      step: "credit",
      from: "external",
      to: "available",
      source,
    }),
  ]);
  if (!outcome.committed)
    throw new Error(`the deposit was not committed: ${String(outcome.cause)}`);
  return { depositId, transactionHash };
}

/** What the user has, as `[available, pending]`. */
export async function balances(userId: string, asset: AssetKey): Promise<[bigint, bigint]> {
  const { available, pending } = await readBalance(env.DB, userId, asset);
  return [available, pending];
}

export function randomHex(bytes: number): string {
  return `0x${randomBytes(bytes).toString("hex")}`;
}
