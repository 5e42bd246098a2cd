/** One-time codes (RFC 6238: SHA-1, 6 digits, 30 s) and recovery codes. No I/O. */
import { Secret as Otp, TOTP } from "otpauth";
import { markOf, type Secret } from "./mark.ts";

const STEP_SECS = 30;

/** A new secret in base32. RFC 4226, section 4, recommends 20 bytes, the length of the hash. */
export function newTotpSecret(): string {
  return new Otp({ size: 20 }).base32;
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
    secret: Otp.fromBase32(secret),
    algorithm: "SHA1",
    digits: 6,
    period: STEP_SECS,
  });
}

/** Ten codes of 80 random bits, each in four groups of four characters. */
export function newRecoveryCodes(): string[] {
  return Array.from({ length: 10 }, () => {
    const text = new Otp({ size: 10 }).base32;
    return text.match(/.{4}/g)?.join("-") ?? text;
  });
}

/**
 * The stored hash of a code of the secret that counts `since` an instant. Its key is a secret of
 * the deployment, so SQL can neither add a code nor have one count at another time.
 */
export function hashOfRecoveryCode(
  secret: Secret,
  { userId, since }: { readonly userId: string; readonly since: number },
  code: string,
): string {
  const text = code.toUpperCase().replace(/[^A-Z2-7]/g, "");
  return markOf(secret, "recovery codes v2", `${userId}:${since}:${text}`, 32).toString("hex");
}
