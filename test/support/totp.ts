/** One-time codes, made independently of the service's library (RFC 4226 and RFC 6238). */
import { createHmac } from "node:crypto";
import { env } from "cloudflare:workers";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf } from "./http.ts";
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
