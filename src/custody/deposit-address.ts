/** Deposit addresses: derived, numbered per user and chain, watched for ever. The newest one is current. */
import { actorRejection, mayWrite } from "../auth/may-write.ts";
import { commitAudited, recordOf } from "../auth/audit.ts";
import { checksumAddress } from "../assets/address.ts";
import { depositAddressFor } from "../chain/addresses.ts";
import type { ChainConfig, Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { Problem, problem, unavailable } from "../platform/problem.ts";
import { all, blob, first, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import type { AddressRecord } from "./watcher/restore-addresses.ts";
import type { Actor } from "../platform/actor.ts";

export const MAX_DEPOSIT_ADDRESSES = 50;

/** Calls of one user at once take each other's number; each try but the last loses to a call that succeeded. */
const NONCE_TRIES = 8;

export type DepositAddress = {
  address: string;
  chain: string;
  created_at: string;
  current: boolean;
  nonce: number;
};

type Row = {
  readonly address: string;
  readonly chain: string;
  readonly created_at: number;
  readonly nonce: number;
};

type Command = {
  readonly actor: Actor;
  readonly chain: ChainConfig;
  readonly ip: string | undefined;
};
/** Keeps a copy outside the database, for a restore (restore-addresses.ts). */
type Remember = (copy: Omit<AddressRecord, "createdAt">) => Promise<void>;

/** The chain's own view of the factory must have been compared before (`verifyFactory`). */
export async function createDepositAddress(
  db: D1Database,
  settings: Pick<Config, "ADDRESS_KEY">,
  { remember = async () => {}, ...command }: Command & { remember?: Remember },
): Promise<DepositAddress> {
  const { actor, chain } = command;
  for (let attempt = 0; attempt < NONCE_TRIES; attempt++) {
    const rejection = await actorRejection(db, actor);
    if (rejection !== undefined) throw new Problem(rejection);
    const count = await first<{ n: number }>(
      db,
      sql`SELECT count(*) AS n FROM deposit_addresses WHERE user_id = ${uuid(actor.userId)} AND chain = ${chain.chain}`,
    );
    const nonce = count?.n ?? 0;
    if (nonce >= MAX_DEPOSIT_ADDRESSES) {
      throw problem(
        "deposit_address_limit",
        `At most ${MAX_DEPOSIT_ADDRESSES} deposit addresses on a chain. Earlier ones stay good.`,
      );
    }
    const created = await tryToCreate(db, settings, { ...command, nonce, remember });
    if (created !== undefined) return created;
  }
  throw unavailable("none", "Too many calls at once for one user. Try again shortly.");
}

async function tryToCreate(
  db: D1Database,
  settings: Pick<Config, "ADDRESS_KEY">,
  { actor, chain, ip, nonce, remember }: Command & { nonce: number; remember: Remember },
): Promise<DepositAddress | undefined> {
  const derived = depositAddressFor(settings, chain, actor.userId, nonce);
  try {
    await remember({
      address: derived.address.slice(2).toLowerCase(),
      salt: derived.salt.slice(2),
      userId: actor.userId,
      nonce,
    });
  } catch (error) {
    log("warn", "custody.address_not_remembered", { chain: chain.chain, ...errorFields(error) });
    throw unavailable("none", "The deposit address could not be recorded. Try again shortly.");
  }
  const count = sql`(SELECT count(*) FROM deposit_addresses WHERE user_id = ${uuid(actor.userId)} AND chain = ${chain.chain})`;
  const mine = sql`FROM deposit_addresses WHERE chain = ${chain.chain} AND address = ${blob(derived.address)}`;
  const created = await commitAudited(db, {
    record: recordOf(actor, "deposit_address_created", { ip, subjectId: derived.address }),
    when: (group) =>
      sql`${mayWrite(actor, group.at)} AND ${nonce} < ${MAX_DEPOSIT_ADDRESSES} AND ${count} = ${nonce} AND NOT EXISTS (SELECT 1 ${mine})`,
    then: (group, applied): Sql[] => [
      sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
        SELECT ${chain.chain}, ${blob(derived.address)}, ${uuid(actor.userId)}, ${nonce}, ${blob(derived.salt)}, ${group.at} WHERE ${applied}`,
    ],
  });
  if (!created) return undefined;
  const row = await first<Row>(
    db,
    sql`SELECT hex(address) AS address, chain, created_at, nonce ${mine}`,
  );
  return row === undefined ? undefined : view(row, true);
}

/** Every address of the user, newest first; the newest of each chain is the current one. */
export async function listDepositAddresses(
  db: D1Database,
  userId: string,
): Promise<DepositAddress[]> {
  const rows = await all<Row>(
    db,
    sql`SELECT hex(address) AS address, chain, created_at, nonce FROM deposit_addresses WHERE user_id = ${uuid(userId)}
      ORDER BY created_at DESC, chain, nonce DESC`,
  );
  const seen = new Set<string>();
  return rows.map((row) => {
    const current = !seen.has(row.chain);
    seen.add(row.chain);
    return view(row, current);
  });
}

function view(row: Row, current: boolean): DepositAddress {
  return {
    address: checksumAddress(row.address),
    chain: row.chain,
    created_at: toWireTime(row.created_at),
    current,
    nonce: row.nonce,
  };
}
