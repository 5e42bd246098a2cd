/**
 * The address book: where withdrawals may go under `withdraw_listed_only`. A new address is usable
 * after AUTH_SECURITY_DELAY_SECS, so that its owner can remove one that a thief has added.
 */
import * as z from "zod";
import { checksumAddress } from "../assets/address.ts";
import { recordOf } from "../audit/audit.ts";
import type { MacKeys } from "../audit/event-mac.ts";
import { isListedMac, listedMac } from "../ledger/withdrawal-mac.ts";
import { NOW } from "../platform/commit.ts";
import { commitOwnChange } from "../auth/own-change.ts";
import { fetchCount, olderThan, pageOf, type PageQuery, type TimeId } from "../http/cursor.ts";
import { described } from "../http/fields.ts";
import type { CheckedActor, SessionActor } from "../platform/actor.ts";
import type { Config } from "../platform/config.ts";
import { problem } from "../platform/problem.ts";
import {
  all,
  blob,
  type Expr,
  expr,
  readUuid,
  scalar,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { toWireTime } from "../platform/time.ts";
import { uuidv7 } from "../platform/uuid.ts";

export const MAX_WITHDRAWAL_ADDRESSES = 100;

export const WithdrawalAddress = z
  .object({
    address_id: described(z.uuid(), "Id of the entry"),
    chain: described(z.string(), "Chain of the address"),
    address: described(z.string(), "The address, in EIP-55 form"),
    label: described(z.string(), "Name of the address, chosen by the user"),
    created_at: described(z.iso.datetime(), "When it was added"),
    active_from: described(z.iso.datetime(), "From when withdrawals may go there"),
  })
  .meta({ id: "WithdrawalAddress" });
type Entry = z.input<typeof WithdrawalAddress>;

type Destination = { readonly chain: string; readonly address: string };
type By = { readonly actor: SessionActor; readonly ip: string | undefined };

/** Adds an address for the actor of `stepUp`, unless listed. Throws `withdrawal_address_limit`. */
export async function createWithdrawalAddress(
  db: D1Database,
  settings: Config,
  { actor, ip, ...entry }: By & Destination & { actor: CheckedActor; label: string },
): Promise<Entry> {
  const { userId } = actor;
  const addressId = uuidv7();
  // The MAC is over the instant, so it is read before the commit.
  const createdAt = await scalar<number>(db, NOW);
  const activeFrom = createdAt + settings.AUTH_SECURITY_DELAY_SECS * 1_000;
  const mac = listedMac(settings, { ...entry, userId, activeFrom });
  const listed = expr`EXISTS (SELECT 1 FROM withdrawal_addresses WHERE ${isEntry(userId, entry)})`;
  const record = recordOf(actor, "withdrawal_address_created", { ip, subjectId: addressId });
  await commitOwnChange(db, actor, {
    record,
    when: () => expr`NOT ${listed} AND (SELECT count(*) FROM withdrawal_addresses
        WHERE user_id = ${uuid(userId)}) < ${MAX_WITHDRAWAL_ADDRESSES}`,
    statements: ({ applied }) => [
      sql`INSERT INTO withdrawal_addresses
          (address_id, user_id, chain, address, label, created_at, active_from, mac)
        SELECT ${uuid(addressId)}, ${uuid(userId)}, ${entry.chain}, ${blob(entry.address)},
          ${entry.label}, ${createdAt}, ${activeFrom}, ${mac}
        WHERE ${applied}`,
    ],
  });
  const [row] = await readEntries(db, isEntry(userId, entry));
  if (row === undefined)
    throw problem(
      "withdrawal_address_limit",
      `You have reached the limit of ${MAX_WITHDRAWAL_ADDRESSES} addresses. Remove one first.`,
    );
  return entryView(row);
}

/** Removes an address. Throws `withdrawal_address_unknown`. */
export async function removeWithdrawalAddress(
  db: D1Database,
  { actor, ip, addressId }: By & { readonly addressId: string },
): Promise<Entry> {
  const { userId } = actor;
  const mine = sql`address_id = ${uuid(addressId)} AND user_id = ${uuid(userId)}`;
  const [row] = await readEntries(db, mine);
  const record = recordOf(actor, "withdrawal_address_removed", { ip, subjectId: addressId });
  const removed = await commitOwnChange(db, actor, {
    record,
    when: () => expr`EXISTS (SELECT 1 FROM withdrawal_addresses WHERE ${mine})`,
    statements: ({ applied }) => [
      sql`DELETE FROM withdrawal_addresses WHERE ${mine} AND ${applied}`,
    ],
  });
  if (removed && row !== undefined) return entryView(row);
  throw problem("withdrawal_address_unknown", "You have no such withdrawal address.");
}

/**
 * The MAC of the entry that meets the condition. Null: there is none, or SQL has written it. The
 * guard of a withdrawal compares the MAC, so it need not trust the row.
 */
export async function macOfEntry(
  db: D1Database,
  keys: MacKeys,
  condition: Sql,
): Promise<string | null> {
  const [row] = await readEntries(db, condition);
  if (row === undefined) return null;
  const { chain, address, active_from: activeFrom, mac } = row;
  const userId = readUuid(row.user_id);
  return isListedMac(keys, { chain, address, userId, activeFrom }, mac) ? mac : null;
}

export async function listWithdrawalAddresses(
  db: D1Database,
  userId: string,
  page: PageQuery<TimeId>,
) {
  const older = olderThan(page, { at: "created_at", id: "address_id" });
  const condition = sql`user_id = ${uuid(userId)} AND ${older}`;
  const rows = await readEntries(db, condition, fetchCount(page));
  return pageOf(page, rows, entryView, (row) => ({
    at: row.created_at,
    id: readUuid(row.address_id),
  }));
}

type Row = Destination & {
  readonly address_id: string;
  readonly user_id: string;
  readonly mac: string | null;
  readonly label: string;
  readonly created_at: number;
  readonly active_from: number;
};

/** The entries that meet the condition, newest first. */
function readEntries(db: D1Database, condition: Sql, limit = 1): Promise<Row[]> {
  return all<Row>(
    db,
    sql`SELECT hex(address_id) AS address_id, hex(user_id) AS user_id, chain,
        hex(address) AS address, label, created_at, active_from, mac
      FROM withdrawal_addresses WHERE ${condition}
      ORDER BY created_at DESC, address_id DESC LIMIT ${limit}`,
  );
}

function entryView(row: Row): Entry {
  return {
    address_id: readUuid(row.address_id),
    chain: row.chain,
    address: checksumAddress(row.address),
    label: row.label,
    created_at: toWireTime(row.created_at),
    active_from: toWireTime(row.active_from),
  };
}

export function isEntry(userId: string, { chain, address }: Destination): Expr {
  return expr`user_id = ${uuid(userId)} AND chain = ${chain} AND address = ${blob(address)}`;
}
