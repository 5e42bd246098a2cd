/** One-time codes, made independently of the service's library (RFC 4226 and RFC 6238). */
import { createHmac } from "node:crypto";
import { env } from "cloudflare:workers";
import { sealSecret } from "../../src/auth/secret-box.ts";
import { bindingOfTotp, openTotp, type SealedTotp } from "../../src/auth/totp-secret.ts";
import { hashOfRecoveryCode } from "../../src/auth/totp.ts";
import { all, blob, first, raw, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, settings } from "./http.ts";
import { PASSWORD, type TestUser } from "./users.ts";

const BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

export function codeOfStep(secret: string, step: number): string {
  const bits = Array.from(secret)
    .map((letter) => BASE32.indexOf(letter).toString(2).padStart(5, "0"))
    .join("");
  const key = Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac("sha1", key).update(counter).digest();
  const offset = (mac.at(-1) ?? 0) & 15;
  return String((mac.readUInt32BE(offset) & 0x7fff_ffff) % 1_000_000).padStart(6, "0");
}

export const presentStep = (): number => Math.floor(Date.now() / 30_000);

/** A code that the user has not used. Forgets the last step, so that tests need not wait. */
export async function freshCode({ userId }: TestUser, secret: string): Promise<string> {
  await all(env.DB, sql`UPDATE totp_secrets SET last_step = 0 WHERE user_id = ${uuid(userId)}`);
  return codeOfStep(secret, presentStep());
}

/** Turns TOTP on. The user's password is `PASSWORD`. */
export async function enrol(
  user: TestUser,
): Promise<{ secret: string; codes: string[]; step: number }> {
  const started = await apiOf(user).post("/auth/totp", { password: PASSWORD });
  const secret: string = started.json["secret"];
  const step = presentStep();
  const confirmed = await apiOf(user).post("/auth/confirm-totp", {
    totp_code: codeOfStep(secret, step),
  });
  return { secret, codes: confirmed.json["recovery_codes"], step };
}

/** Lets time pass for the user's authenticators and these recovery codes, which bind instants. */
export async function moveTotp(
  user: TestUser,
  ms: number,
  codes: readonly string[] = [],
): Promise<void> {
  const next = { sealed: "next_sealed", masterKeyId: "next_master_key_id", since: "next_from" };
  const present = { sealed: "secret_sealed", masterKeyId: "master_key_id", since: "created_at" };
  for (const columns of [present, next]) await moveSecret(user, { columns, ms, codes });
}

async function moveSecret(
  { userId }: TestUser,
  move: {
    columns: Record<"sealed" | "masterKeyId" | "since", string>;
    ms: number;
    codes: readonly string[];
  },
): Promise<void> {
  const { columns } = move;
  const [sealed, keyId, at] = [raw(columns.sealed), raw(columns.masterKeyId), raw(columns.since)];
  const mine = sql`user_id = ${uuid(userId)} AND status = 'confirmed' AND ${sealed} IS NOT NULL`;
  const row = await first<SealedTotp>(
    env.DB,
    sql`SELECT ${sealed} AS sealed, ${keyId} AS masterKeyId, ${at} AS since
      FROM totp_secrets WHERE ${mine}`,
  );
  if (row === undefined) return;
  const owner = { userId, status: "confirmed" } as const;
  const [{ since }, ring] = [row, settings().MASTER_KEYS];
  const moved = { since: since - move.ms };
  const secret = await openTotp(ring, row, { ...owner, since });
  const box = await sealSecret(ring, secret, bindingOfTotp({ ...owner, ...moved }));
  await all(
    env.DB,
    sql`UPDATE totp_secrets SET ${sealed} = ${box.sealed}, ${at} = ${moved.since} WHERE ${mine}`,
  );
  const hashOf = (code: string, instant: { since: number }) =>
    blob(hashOfRecoveryCode(settings(), { userId, ...instant }, code));
  for (const code of move.codes)
    await all(
      env.DB,
      sql`UPDATE recovery_codes SET code_hash = ${hashOf(code, moved)}, active_from = ${moved.since}
        WHERE user_id = ${uuid(userId)} AND code_hash = ${hashOf(code, { since })}`,
    );
}
