/** One-time codes (RFC 6238: SHA-1, 6 digits, 30 s) and recovery codes. No I/O. */
import { createHash } from "node:crypto";
import { Secret, TOTP } from "otpauth";

const ISSUER = "RFQ Custody";
/** RFC 4226, section 4: the length of the hash is recommended. */
const SECRET_BYTES = 20;
/** A code of the step before or after the present one is valid too, because clocks differ. */
const WINDOW_STEPS = 1;
const STEP_SECS = 30;
const RECOVERY_CODES = 10;
const RECOVERY_CODE_BYTES = 10;

/** A new secret in base32, as authenticator apps take it. */
export function newTotpSecret(): string {
  return new Secret({ size: SECRET_BYTES }).base32;
}

/** The URI that authenticator apps read from a QR code. */
export function otpauthUri(secret: string, email: string): string {
  return totp(secret, email).toString();
}

/** The step whose code this is, at most one step from the present one. Undefined if none is. */
export function stepOfCode(secret: string, code: string, nowMs: number): number | undefined {
  const delta = totp(secret).validate({ token: code, timestamp: nowMs, window: WINDOW_STEPS });
  return delta === null ? undefined : Math.floor(nowMs / 1_000 / STEP_SECS) + delta;
}

function totp(secret: string, label = ""): TOTP {
  return new TOTP({
    issuer: ISSUER,
    label,
    secret: Secret.fromBase32(secret),
    algorithm: "SHA1",
    digits: 6,
    period: STEP_SECS,
  });
}

/** Codes of 80 random bits, each in four groups of four characters. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: RECOVERY_CODES }, () => {
    const text = new Secret({ size: RECOVERY_CODE_BYTES }).base32;
    return text.match(/.{4}/g)?.join("-") ?? text;
  });
}

/** SHA-256 suffices, because a code has 80 random bits. The user's id makes hashes differ. */
export function hashOfRecoveryCode(userId: string, code: string): string {
  const text = code.toUpperCase().replace(/[^A-Z2-7]/g, "");
  return createHash("sha256").update(`recovery-code:${userId}:${text}`).digest("hex");
}
