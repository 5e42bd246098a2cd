/** The TOTP secrets of a user: the confirmed one, and one that awaits its confirmation. */
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { all, blob, type Expr, first, readUuid, type Sql, sql, uuid } from "../platform/sql.ts";
import { newestKeyId, openSecret, type Sealed, sealSecret } from "./secret-box.ts";

type Status = "pending" | "confirmed";
type Owner = { readonly userId: string; readonly status: Status };
type Ring = Config["MASTER_KEYS"];

/** `FROM … WHERE …` of the secret that is valid at an instant. */
export function validSecret({ userId, status }: Owner, at: Expr): Sql {
  return sql`FROM totp_secrets WHERE user_id = ${uuid(userId)} AND status = ${status}
    AND (ends_at IS NULL OR ends_at > ${at})`;
}

export type StoredSecret = Sealed & { readonly secret: string };

/** Reads the sealed secret. Undefined if there is none. */
export function readTotpBox(db: D1Database, owner: Owner): Promise<Sealed | undefined> {
  return first<Sealed>(
    db,
    sql`SELECT secret_sealed AS sealed, master_key_id AS masterKeyId ${validSecret(owner, NOW)}`,
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
    const rows = await all<Sealed & { id: string; status: Status }>(
      db,
      sql`SELECT hex(user_id) AS id, status, secret_sealed AS sealed, master_key_id AS masterKeyId
        FROM totp_secrets WHERE (user_id, status) > (${blob(after.id)}, ${after.status})
        ORDER BY user_id, status LIMIT ${PAGE}`,
    );
    for (const row of rows.filter(({ masterKeyId }) => masterKeyId !== newest)) {
      const owner = { userId: readUuid(row.id), status: row.status };
      const box = await reseal(ring, row, owner);
      if (box === undefined) unreadable.push(owner.userId);
      else {
        await all(
          db,
          sql`UPDATE totp_secrets SET secret_sealed = ${box.sealed},
              master_key_id = ${box.masterKeyId}
            WHERE user_id = ${blob(row.id)} AND secret_sealed = ${row.sealed}`,
        );
        rewrapped += 1;
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
