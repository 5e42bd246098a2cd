import { expect, it } from "vitest";
import {
  hashOfRecoveryCode,
  newRecoveryCodes,
  newTotpSecret,
  otpauthUri,
  stepOfCode,
} from "../../src/auth/totp.ts";

/** The secret of RFC 6238, appendix B: `12345678901234567890` in base32. */
const RFC_SECRET = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";

it.each([
  [59, "287082"],
  [1_111_111_109, "081804"],
  [1_111_111_111, "050471"],
  [1_234_567_890, "005924"],
  [2_000_000_000, "279037"],
  [20_000_000_000, "353130"],
])("accepts the code of RFC 6238 at %i s", (seconds, code) => {
  expect(stepOfCode(RFC_SECRET, code, seconds * 1_000)).toBe(Math.floor(seconds / 30));
});

it("accepts a code one step early or late, and no further", () => {
  const at = 1_234_567_890_000;
  const step = 41_152_263;
  for (const late of [-1, 0, 1])
    expect(stepOfCode(RFC_SECRET, "005924", at + late * 30_000)).toBe(step);
  for (const late of [-2, 2])
    expect(stepOfCode(RFC_SECRET, "005924", at + late * 30_000)).toBeUndefined();
  expect(stepOfCode(RFC_SECRET, "005925", at)).toBeUndefined();
});

it("makes secrets of 160 bits and a URI that names the account", () => {
  const secret = newTotpSecret();
  expect(secret).toMatch(/^[A-Z2-7]{32}$/);
  expect(newTotpSecret()).not.toBe(secret);
  const uri = new URL(otpauthUri(secret, "ann@example.com"));
  expect(decodeURIComponent(uri.pathname)).toContain("ann@example.com");
  expect(uri.searchParams.get("secret")).toBe(secret);
});

it("makes ten recovery codes of 80 bits, read in any spelling", () => {
  const codes = newRecoveryCodes();
  expect(new Set(codes).size).toBe(10);
  for (const code of codes) expect(code).toMatch(/^([A-Z2-7]{4}-){3}[A-Z2-7]{4}$/);
  const [code = ""] = codes;
  const [secret, owner] = [{ ADDRESS_KEY: "k".repeat(32) }, { userId: "user-1", since: 1 }];
  const hash = hashOfRecoveryCode(secret, owner, code);
  const spelled = ` ${code.toLowerCase().replaceAll("-", " ")}`;
  expect(hashOfRecoveryCode(secret, owner, spelled)).toBe(hash);
  for (const other of [{ userId: "user-2" }, { since: 2 }])
    expect(hashOfRecoveryCode(secret, { ...owner, ...other }, code)).not.toBe(hash);
  expect(hashOfRecoveryCode({ ADDRESS_KEY: "l".repeat(32) }, owner, code)).not.toBe(hash);
});
