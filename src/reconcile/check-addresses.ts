/**
 * Check `address_mismatch`: whose deposits are credited to whom. Each row of `deposit_addresses`
 * must be the address that its user, chain and number derive, and each deposit must be credited to
 * the user of its address. SQL can edit both rows, but it cannot derive an address.
 */
import { uuidTextOf } from "../audit/audit.ts";
import { commandText, type Deployed } from "../platform/command-text.ts";
import { all, type RowOf, select, sql, typed } from "../platform/sql.ts";
import type { Chunk } from "./check-alone.ts";
import { type Difference, differencesIn } from "./difference.ts";
import { MAX_PER_CHUNK, within } from "./check-journal.ts";

/** Derives an address. Undefined: the settings do not contain the chain, so nobody watches it. */
export type AddressOf = (name: {
  readonly chain: string;
  readonly userId: string;
  readonly nonce: number;
}) => { readonly address: string; readonly salt: string } | undefined;

const ADDRESS = {
  chain: typed<string>("chain"),
  address: typed<string>("'0x' || lower(hex(address))"),
  userId: uuidTextOf("user_id"),
  nonce: typed<number>("nonce"),
  salt: typed<string>("'0x' || lower(hex(salt))"),
};
type AddressRow = RowOf<typeof ADDRESS>;

type Keys = { readonly addressOf?: AddressOf | undefined; readonly macKeys: Deployed };

/** Derives the addresses of a chunk of rows, if `addressOf` is known. */
export async function checkAddresses(
  db: D1Database,
  { addressOf, macKeys }: Keys,
  chunk: Chunk,
): Promise<Difference[]> {
  if (addressOf === undefined) return [];
  const rows = await all<AddressRow>(
    db,
    sql`SELECT ${select(ADDRESS)} FROM deposit_addresses NOT INDEXED
      WHERE ${within("rowid", chunk)}`,
  );
  return rows.flatMap((row) => wrongAddress(row, addressOf, macKeys));
}

function wrongAddress(row: AddressRow, addressOf: AddressOf, settings: Deployed): Difference[] {
  const { chain, userId, nonce } = row;
  const derived = addressOf({ chain, userId, nonce });
  if (derived === undefined) return [];
  const expected = derived.address.toLowerCase();
  if (row.address === expected && row.salt === derived.salt) return [];
  const problem =
    row.address === expected
      ? "the row has another salt"
      : `the row has another address; ${expected} is derived`;
  return [
    {
      check: "address_mismatch",
      account: `${userId}/deposit-address/${chain}/${row.address}`,
      amount: "0",
      detail: `address ${nonce} of the user on ${chain}: ${problem}. ${freeze(settings, userId)}`,
    },
  ];
}

/** Deposits that a chunk of groups has credited to another user than that of their address. */
export async function checkCredits(
  db: D1Database,
  settings: Deployed,
  chunk: Chunk,
): Promise<Difference[]> {
  const found = await differencesIn(
    db,
    "address_mismatch",
    sql`SELECT hex(d.user_id) AS owner, 'deposit' AS kind, ${uuidTextOf("d.deposit_id")} AS asset,
        d.amount, 'its address is that of user ' || ${uuidTextOf("a.user_id")} AS detail
      FROM deposits d CROSS JOIN deposit_addresses a ON a.chain = d.chain AND a.address = d.address
      WHERE ${within("d.ended_group", chunk)} AND d.status = 'credited'
        AND a.user_id <> d.user_id LIMIT ${MAX_PER_CHUNK}`,
  );
  return found.map((one) => {
    const [owner = ""] = one.account.split("/");
    return { ...one, detail: `${one.detail}. ${freeze(settings, owner)}` };
  });
}

/** Stops the user who may have received what belongs to another. */
function freeze(settings: Deployed, userId: string): string {
  return `Next: ${commandText(settings, "operator", "user", "freeze", "--user-id", userId)}`;
}
