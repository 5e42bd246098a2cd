/** Receipts: records that the service signed, so that others believe them. */
import type { Liabilities, Match, SigningKeys, Withdrawal } from "./types.ts";
import { decode } from "./wire.ts";

type Issued = {
  /** Name of the deployment that signed it. */
  deployment: string;
  /** The user whose record it is. */
  user_id: string;
  /** When the service held this, to the second. */
  at: Date;
  key_id: string;
};

/** What the service held at an instant. */
export type Receipt =
  | (Issued & { kind: "match"; record: Match })
  | (Issued & { kind: "withdrawal"; record: Withdrawal })
  | (Omit<Issued, "user_id"> & { kind: "liabilities"; record: Liabilities });

const ED25519 = { name: "Ed25519" };
const NO_RECEIPT = "This is no receipt of one of these keys.";
const KIND = /^(match|withdrawal|liabilities)-receipt\+jws$/;

/**
 * Verifies a receipt without a call: `keys` are those of `client.signingKeys()`, which you keep.
 * Compare `deployment` with the one you know. Throws an `Error` if a key of `keys` did not sign it.
 *
 * @example
 * ```ts
 * const keys = await client.signingKeys();
 * const receipt = await verifyReceipt(await client.rfq.matchReceipt({ quote_id }), keys);
 * if (receipt.kind === "match") console.log(receipt.at, receipt.record.usdc_amount);
 * ```
 */
export async function verifyReceipt(receipt: string, keys: SigningKeys): Promise<Receipt> {
  const [head = "", body = "", signature = "", ...more] = receipt.split(".");
  const { alg, typ, kid, iss, sub, iat } = decode(textOf(head)) as Record<string, unknown>;
  const [, kind] = KIND.exec(String(typ)) ?? [];
  const known = keys.keys.find((each) => each.kid === kid);
  if (more.length > 0 || alg !== "EdDSA" || kind === undefined || known === undefined)
    throw new Error(NO_RECEIPT);
  const jwk = { kty: known.kty, crv: known.crv, x: known.x };
  const key = await crypto.subtle.importKey("jwk", jwk, ED25519, false, ["verify"]);
  const signed = new TextEncoder().encode(`${head}.${body}`);
  if (!(await crypto.subtle.verify(ED25519, key, bytesOf(signature), signed)))
    throw new Error("The receipt was altered after it was signed.");
  // Safe casts: the service signs nothing else with this `typ`.
  return {
    kind,
    record: decode(textOf(body)),
    deployment: iss,
    ...(kind === "liabilities" ? {} : { user_id: sub }),
    at: new Date(Number(iat) * 1_000),
    key_id: kid,
  } as Receipt;
}

function textOf(part: string): string {
  return new TextDecoder().decode(bytesOf(part));
}

function bytesOf(part: string): Uint8Array<ArrayBuffer> {
  if (!/^[\w-]*$/.test(part) || part.length % 4 === 1) throw new Error(NO_RECEIPT);
  const binary = atob(part.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (char) => char.charCodeAt(0));
}
