/** One-time codes (RFC 6238: SHA-1, 6 digits, 30 s) and recovery codes. No I/O. */
import { createHash } from "node:crypto";
import { Secret, TOTP } from "otpauth";

const STEP_SECS = 30;

/** A new secret in base32. RFC 4226, section 4, recommends 20 bytes, the length of the hash. */
export function newTotpSecret(): string {
  return new Secret({ size: 20 }).base32;
}

/** The URI that authenticator apps read from a QR code. */
export function otpauthUri(secret: string, email: string): string {
  return totp(secret, email).toString();
}

/** The step of the code: the present one, or the one before or after it, because clocks differ. */
export function stepOfCode(secret: string, code: string, nowMs: number): number | undefined {
  const delta = totp(secret).validate({ token: code, timestamp: nowMs, window: 1 });
  return delta === null ? undefined : Math.floor(nowMs / 1_000 / STEP_SECS) + delta;
}

function totp(secret: string, label = ""): TOTP {
  return new TOTP({
    issuer: "RFQ Custody",
    label,
    secret: Secret.fromBase32(secret),
    algorithm: "SHA1",
    digits: 6,
    period: STEP_SECS,
  });
}

/** Ten codes of 80 random bits, each in four groups of four characters. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: 10 }, () => {
    const text = new Secret({ size: 10 }).base32;
    return text.match(/.{4}/g)?.join("-") ?? text;
  });
}

/** SHA-256 suffices, because a code has 80 random bits. The user's id makes hashes differ. */
export function hashOfRecoveryCode(userId: string, code: string): string {
  const text = code.toUpperCase().replace(/[^A-Z2-7]/g, "");
  return createHash("sha256").update(`recovery-code:${userId}:${text}`).digest("hex");
}
