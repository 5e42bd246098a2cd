/** Deposit addresses are derived, numbered per user and chain, and watched permanently. */
import type * as z from "zod";
import { checksumAddress } from "../assets/address.ts";
import { audited, auditRow, recordOf } from "../audit/audit.ts";
import { type ActorFacts, actorFacts, actorPrecondition } from "../auth/may-write.ts";
import { depositAddressFor } from "../chain/addresses.ts";
import type { Actor } from "../platform/actor.ts";
import { NOW } from "../platform/commit.ts";
import { countDaily, dailyPrecondition, type DailyUse, dailyUse } from "../platform/daily-limit.ts";
import { storagePrecondition } from "../platform/storage.ts";
import type { ChainConfig, Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { type Operation, tryOperation } from "../platform/operation.ts";
import {
  ask,
  guardOf,
  type Precondition,
  questionOf,
  required,
} from "../platform/preconditions.ts";
import { unavailable } from "../platform/problem.ts";
import { all, blob, type Expr, expr, scalar, type Sql, sql, uuid } from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { uuidv7 } from "../platform/uuid.ts";
import type * as schema from "./schemas.ts";
import type { AddressRecord } from "./watcher/restore-addresses.ts";

export const MAX_DEPOSIT_ADDRESSES = 50;

/** Parallel calls of a user compete for the next nonce. When one loses, another has succeeded. */
const NONCE_TRIES = 8;

export type DepositAddressView = z.input<typeof schema.DepositAddress>;

type Row = {
  readonly address: string;
  readonly chain: string;
  readonly createdAt: number;
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
  settings: Config,
  { remember = async () => {}, ...command }: Command & { remember?: Remember },
): Promise<DepositAddressView> {
  const { actor, chain } = command;
  for (let attempt = 0; attempt < NONCE_TRIES; attempt++) {
    const nonce = await scalar<number>(db, addressesOf(actor.userId, chain.chain));
    const operation = insertAddress(settings, { ...command, nonce });
    // Before anything is kept outside the database, so that a rejected call leaves nothing behind.
    await ask(db, [operation.rejection()]);
    await remember(operation.record).catch((error: unknown) => {
      log("warn", "custody.address_not_recorded", { chain: chain.chain, ...errorFields(error) });
      throw unavailable("none", "The deposit address could not be recorded. Try again shortly.");
    });
    const created = await tryOperation(db, operation);
    if (created !== undefined) return created;
  }
  throw unavailable("none", "Too many calls of one user at once. Try again shortly.");
}

/** Inserts the address of a nonce. Neither applies nor rejects if another call has taken it. */
function insertAddress(
  settings: Config,
  command: Command & { readonly nonce: number },
): Operation<DepositAddressView> & { readonly record: Omit<AddressRecord, "createdAt"> } {
  const { actor, chain, ip, nonce } = command;
  const { address, salt } = depositAddressFor(settings, chain, actor.userId, nonce);
  const mine = sql`FROM deposit_addresses WHERE chain = ${chain.chain}
    AND address = ${blob(address)}`;
  const daily = dailyUse(settings, "deposit_addresses", actor.userId);
  const checks = (at: Expr) => preconditions({ ...command, daily }, mine, at);
  const auditId = uuidv7();
  return {
    record: {
      address: address.slice(2).toLowerCase(),
      salt: salt.slice(2),
      userId: actor.userId,
      nonce,
    },
    // The audit row is the guard: the address exists exactly when its audit row does.
    statements: (group) => [
      auditRow(
        recordOf(actor, "deposit_address_created", { ip, subjectId: address }),
        group.at,
        guardOf(checks(group.at)),
        auditId,
      ),
      sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
        SELECT ${chain.chain}, ${blob(address)}, ${uuid(actor.userId)}, ${nonce}, ${blob(salt)},
          ${group.at}
        WHERE ${audited(auditId)}`,
      countDaily(daily, group.at, audited(auditId)),
    ],
    report: () => [sql`SELECT created_at AS createdAt ${mine} AND ${audited(auditId)}`],
    result: ([rows]) => {
      // Safe cast: the report selects this column.
      const [row] = (rows ?? []) as Pick<Row, "createdAt">[];
      return row && view({ ...row, address, chain: chain.chain, nonce }, true);
    },
    rejection: () =>
      questionOf({ preconditions: checks(NOW), facts: {}, apart: actorFacts(actor) }),
  };
}

function preconditions(
  { actor, chain, nonce, daily }: Command & { readonly nonce: number; readonly daily: DailyUse },
  mine: Sql,
  at: Expr,
): readonly Precondition<ActorFacts, DepositAddressView>[] {
  return [
    actorPrecondition(actor, at),
    required(expr`${nonce} < ${MAX_DEPOSIT_ADDRESSES}`, () => ({
      code: "deposit_address_limit",
      detail:
        `You have reached the limit of ${MAX_DEPOSIT_ADDRESSES} deposit addresses on a chain. ` +
        "Earlier ones stay valid.",
    })),
    storagePrecondition,
    dailyPrecondition(daily, at),
    // Another call took the nonce: try again with the next one.
    { expr: expr`${addressesOf(actor.userId, chain.chain)} = ${nonce}`, reject: () => undefined },
    { expr: expr`NOT EXISTS (SELECT 1 ${mine})`, reject: () => undefined },
  ];
}

function addressesOf(userId: string, chain: string): Expr {
  return expr`SELECT count(*) FROM deposit_addresses WHERE user_id = ${uuid(userId)}
    AND chain = ${chain}`;
}

/** Every address of the user, newest first; the newest of each chain is the current one. */
export async function listDepositAddresses(
  db: D1Database,
  userId: string,
): Promise<DepositAddressView[]> {
  const rows = await all<Row>(
    db,
    sql`SELECT hex(address) AS address, chain, created_at AS createdAt, nonce
      FROM deposit_addresses WHERE user_id = ${uuid(userId)}
      ORDER BY created_at DESC, chain, nonce DESC`,
  );
  const seen = new Set<string>();
  return rows.map((row) => {
    const current = !seen.has(row.chain);
    seen.add(row.chain);
    return view(row, current);
  });
}

function view(row: Row, current: boolean): DepositAddressView {
  return {
    address: checksumAddress(row.address),
    chain: row.chain,
    created_at: toWireTime(row.createdAt),
    current,
    nonce: row.nonce,
  };
}
