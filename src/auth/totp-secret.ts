/**
 * The TOTP secrets of a user: the confirmed one, its replacement, which counts from an instant on,
 * and one that awaits its confirmation.
 */
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import {
  all,
  atom,
  blob,
  type Columns,
  type Expr,
  expr,
  first,
  raw,
  readUuid,
  select,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { newestKeyId, openSecret, type Sealed, sealSecret } from "./secret-box.ts";

type Status = "pending" | "confirmed";
type Owner = { readonly userId: string; readonly status: Status };
type Ring = Config["MASTER_KEYS"];

/** `FROM … WHERE …` of the secret that is valid at an instant. */
export function validSecret({ userId, status }: Owner, at: Expr): Sql {
  return sql`FROM totp_secrets WHERE user_id = ${uuid(userId)} AND status = ${status}
    AND (ends_at IS NULL OR ends_at > ${at})`;
}

/** Of a row at an instant: what counts of the secret and its replacement, and since when. */
export function secretAt(
  at: Expr,
  table = "totp_secrets",
): Columns<"sealed" | "masterKeyId" | "since"> {
  const column = (name: string) => atom(`${table}.${name}`);
  const either = (present: string, next: string) =>
    expr`iif(${column("next_from")} <= ${at}, ${column(next)}, ${column(present)})`;
  return {
    sealed: either("secret_sealed", "next_sealed"),
    masterKeyId: either("master_key_id", "next_master_key_id"),
    since: either("created_at", "next_from"),
  };
}

export type StoredSecret = Sealed & { readonly secret: string };

/** Reads the sealed secret. Undefined if there is none. */
export function readTotpBox(db: D1Database, owner: Owner): Promise<Sealed | undefined> {
  const { sealed, masterKeyId } = secretAt(NOW);
  return first<Sealed>(
    db,
    sql`SELECT ${select({ sealed, masterKeyId })} ${validSecret(owner, NOW)}`,
  );
}

export async function openTotpSecret(ring: Ring, box: Sealed, owner: Owner): Promise<StoredSecret> {
  return { ...box, secret: await openSecret(ring, box, totpBinding(owner)) };
}

export function sealTotpSecret(ring: Ring, secret: string, owner: Owner): Promise<Sealed> {
  return sealSecret(ring, secret, totpBinding(owner));
}

/** The additional data of the seal. A pending secret does not open as a confirmed one. */
function totpBinding({ userId, status }: Owner): string {
  return `totp:${userId}:${status}`;
}

const PAGE = 50;
type Row = { readonly id: string; readonly status: Status };
/** The columns of each secret of a row. */
const BOXES = [
  { sealed: "secret_sealed", masterKeyId: "master_key_id" },
  { sealed: "next_sealed", masterKeyId: "next_master_key_id" },
];

/** Seals every secret with the newest master key. Returns the users whose secret does not open. */
export async function rewrapTotp(
  db: D1Database,
  ring: Ring,
): Promise<{ rewrapped: number; unreadable: readonly string[] }> {
  const newest = newestKeyId(ring);
  let rewrapped = 0;
  const unreadable: string[] = [];
  let after = { id: "", status: "" };
  for (;;) {
    const page = sql`FROM totp_secrets WHERE (user_id, status) > (${blob(after.id)}, ${after.status})
      ORDER BY user_id, status LIMIT ${PAGE}`;
    const rows = await all<Row>(db, sql`SELECT hex(user_id) AS id, status ${page}`);
    for (const { sealed: name, masterKeyId: keyName } of BOXES) {
      const boxes = await all<Row & Sealed>(
        db,
        sql`SELECT * FROM (SELECT hex(user_id) AS id, status, ${raw(name)} AS sealed,
          ${raw(keyName)} AS masterKeyId ${page}) WHERE masterKeyId <> ${newest}`,
      );
      for (const row of boxes) {
        const owner = { userId: readUuid(row.id), status: row.status };
        const box = await reseal(ring, row, owner);
        if (box === undefined) unreadable.push(owner.userId);
        else {
          await all(
            db,
            sql`UPDATE totp_secrets SET ${raw(name)} = ${box.sealed},
                ${raw(keyName)} = ${box.masterKeyId}
              WHERE user_id = ${blob(row.id)} AND ${raw(name)} = ${row.sealed}`,
          );
          rewrapped += 1;
        }
      }
    }
    const last = rows.at(-1);
    if (last === undefined) return { rewrapped, unreadable };
    after = last;
  }
}

async function reseal(ring: Ring, box: Sealed, owner: Owner): Promise<Sealed | undefined> {
  try {
    const secret = await openSecret(ring, box, totpBinding(owner));
    return await sealTotpSecret(ring, secret, owner);
  } catch (error) {
    log("error", "rewrap_unreadable", { user_id: owner.userId, ...errorFields(error) });
    return undefined;
  }
}
