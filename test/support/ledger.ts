/** New assets, funds and balances. */
import { env } from "cloudflare:workers";
import { randomBytes } from "node:crypto";
import { credit } from "../../scripts/stack/credit.ts";
import { paymentId } from "../../src/chain/payment-id.ts";
import type { VaultEvent } from "../../src/chain/decode-logs.ts";
import { tokenOf } from "../../src/chain/token.ts";
import { announceWithdrawals } from "../../src/custody/custody-events.ts";
import {
  failUnpayable,
  recordVaultEvents,
  settlePaid,
} from "../../src/custody/watcher/settle-withdrawal.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { assetKey, type AssetKey } from "../../src/assets/asset.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import type { Venue } from "../../src/platform/venues.ts";
import { readBalance } from "../../src/ledger/balance.ts";
import { commit, newGroup } from "../../src/platform/commit.ts";
import { all, blob, prepare, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
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
export function newAddress(): `0x${string}` {
  return randomHex(20);
}

export type Funded = { readonly depositId: string; readonly transactionHash: string };

/** Credits an amount as the watcher does. */
export async function fund(
  userId: string,
  asset: AssetKey,
  amount: bigint,
  {
    chain = "local",
    address = newAddress(),
    db = env.DB,
  }: { chain?: string; address?: string; db?: D1Database } = {},
): Promise<Funded> {
  return credit(db, { userId, asset, amount, chain, address });
}

/** What the user has, as `[available, pending]`. */
export async function balances(
  userId: string,
  asset: AssetKey,
  db: D1Database = env.DB,
): Promise<[bigint, bigint]> {
  const { available, pending } = await readBalance(db, userId, asset);
  return [available, pending];
}

export type Queued = {
  readonly withdrawalId: string;
  readonly paymentId: `0x${string}`;
  readonly asset: AssetKey;
  readonly amount: bigint;
  readonly to: `0x${string}`;
};

const SETTINGS = {
  ...config(env),
  WITHDRAWAL_MIN_UNITS: 1n,
  WITHDRAWAL_MAX_UNITS: 2n ** 62n,
  WITHDRAWAL_DAILY_COUNT: 100_000,
};

/** Queues a withdrawal as the route does. Throws a `Problem` if it is rejected. */
export async function queueWithdrawal(
  { actor }: { readonly actor: Actor },
  asset: AssetKey,
  amount: bigint,
  {
    chain = "local",
    to = newAddress(),
    clientWithdrawalId = uuidv7(),
    db = env.DB,
  }: { chain?: string; to?: `0x${string}`; clientWithdrawalId?: string; db?: D1Database } = {},
): Promise<Queued> {
  const terms = { clientWithdrawalId, amount, toAddress: to, chain, asset };
  const { row } = await withdraw(db, SETTINGS, { actor, ip: undefined, terms });
  return {
    withdrawalId: row.withdrawal_id.toLowerCase(),
    paymentId: paymentId(SETTINGS, actor.userId, clientWithdrawalId),
    asset,
    amount,
    to,
  };
}

/** Applies the vault's event as the watcher does. Repeating it changes nothing. */
export async function endWithdrawal(
  { paymentId: id, asset, amount, to }: Queued,
  kind: "Paid" | "Failed",
  db: D1Database = env.DB,
): Promise<void> {
  const group = newGroup();
  const settings = config(env);
  const chain = defaultChain(settings);
  const { token, tokenId } = tokenOf(settings, chain, asset);
  const event: VaultEvent = {
    kind,
    id,
    vault: randomHex(20),
    transactionHash: randomHex(32),
    ordinal: 0,
    logIndex: 0,
    blockNumber: 1,
    blockHash: randomHex(32),
    batchNo: 1,
    ...(kind === "Paid" && { paid: { token, tokenId, amount, to } }),
  };
  const outcome = await commit(db, group, [
    ...recordVaultEvents(group, { settings, chain }, [event], raw("1")),
    ...settlePaid(group, "local"),
    ...failUnpayable(group),
    ...announceWithdrawals(group),
  ]);
  if (!outcome.committed) throw new Error("the event was not committed", { cause: outcome.cause });
}

/** Inserts a withdrawal of which the journal has no transfer. */
export async function insertWithdrawal(
  userId: string,
  values: {
    chain?: string;
    asset?: AssetKey;
    amount?: bigint;
    status?: string;
    updatedAt?: number;
    /** The commit group that changed it last. Group 0 is before any other. */
    changedGroup?: Sql;
  } = {},
): Promise<{ withdrawalId: string; paymentId: string }> {
  const { chain = "none", asset = "usdc", amount = 1n, status = "queued", updatedAt = 0 } = values;
  const withdrawalId = uuidv7();
  const id = paymentId(SETTINGS, userId, withdrawalId);
  await all(
    env.DB,
    sql`INSERT INTO withdrawals (withdrawal_id, job_id, user_id, client_withdrawal_id, payment_id,
        chain, asset, amount, to_address, status, created_at, updated_at, queued_group,
        changed_group)
      VALUES (${uuid(withdrawalId)}, ${uuid(uuidv7())}, ${uuid(userId)}, ${withdrawalId},
        ${blob(id)}, ${chain}, ${asset}, ${amount}, ${blob(newAddress())}, ${status}, 0,
        ${updatedAt}, 0, ${values.changedGroup ?? raw("0")})`,
  );
  return { withdrawalId, paymentId: id };
}

/** Inserts a deposit of which the journal has no transfer. */
export async function insertDeposit(
  userId: string,
  values: { chain: string; asset: AssetKey; amount: bigint; status: string },
): Promise<Funded> {
  const [depositId, transactionHash] = [uuidv7(), randomHex(32)];
  await all(
    env.DB,
    sql`INSERT INTO deposits (deposit_id, chain, transaction_hash, token, ordinal, position,
        block_number, block_hash, address, user_id, asset, amount, required_confirmations, status,
        seen_group, detected_at, detected_group)
      VALUES (${uuid(depositId)}, ${values.chain}, ${blob(transactionHash)},
        ${blob(newAddress())}, 0, 0, 1, ${blob(randomHex(32))}, ${blob(newAddress())},
        ${uuid(userId)}, ${values.asset}, ${values.amount.toString()}, 2, ${values.status}, 0, 1,
        0)`,
  );
  return { depositId, transactionHash };
}

export function randomHex(bytes: number): `0x${string}` {
  return `0x${randomBytes(bytes).toString("hex")}`;
}

/** Runs statements without a table's triggers: as if somebody edited the database file. */
export async function edit(db: D1Database, table: string, statements: readonly Sql[]) {
  const triggers = await all<Trigger>(
    db,
    sql`SELECT name, sql AS text FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ${table}`,
  );
  await withoutTriggers(db, triggers, statements);
}

/** Runs a statement without the named triggers: as if somebody edited the database file. */
export async function tamper(triggers: string | readonly string[], statement: Sql): Promise<void> {
  const names = [triggers].flat();
  const named = await all<Trigger>(
    env.DB,
    sql`SELECT name, sql AS text FROM sqlite_master WHERE type = 'trigger'
      AND name IN (SELECT value FROM json_each(${JSON.stringify(names)}))`,
  );
  if (named.length !== names.length) throw new Error(`no such triggers: ${names.join(", ")}`);
  await withoutTriggers(env.DB, named, [statement]);
}

type Trigger = { readonly name: string; readonly text: string };

/** In one batch, because each change of the schema costs as much as all of them in one. */
async function withoutTriggers(
  db: D1Database,
  triggers: readonly Trigger[],
  statements: readonly Sql[],
): Promise<void> {
  const drops = triggers.map(({ name }) => raw(`DROP TRIGGER ${name}`));
  const creates = triggers.map(({ text }) => raw(text));
  await db.batch([...drops, ...statements, ...creates].map((change) => prepare(db, change)));
}

/** The columns of a table that its rows store, for a copy of a row. */
export async function storedColumns(db: D1Database, table: string): Promise<Sql> {
  const columns = await all<{ name: string }>(
    db,
    sql`SELECT name FROM pragma_table_info(${table})`,
  );
  return raw(columns.map(({ name }) => name).join(", "));
}
