/**
 * Receipts: a record as a JWS (RFC 7515), which its owner can show to others. It is made when it is
 * read, so it says what the service held at that instant. GET /.well-known/jwks.json verifies it.
 */
import { prefers } from "../http/accept.ts";
import type { Config } from "../platform/config.ts";
import { now } from "../platform/time.ts";
import { signingKeyId, signText } from "./signing-keys.ts";

export const RECEIPT_TYPE = "application/jose";
export const RECEIPT_TEXT =
  "With `accept: application/jose` the response is a receipt: the same record as a JWS.";

type Call = {
  readonly request: Request;
  readonly settings: Config;
  readonly actor: { readonly userId: string };
};

/** The record, or its receipt if the caller prefers that. */
export async function orReceipt<Body>(
  { request, settings, actor }: Call,
  kind: "match" | "withdrawal",
  body: Body,
): Promise<Body | Response> {
  if (!prefersReceipt(request)) return body;
  return receiptResponse(await signReceipt(settings, kind, body, actor.userId));
}

export function prefersReceipt(request: Request): boolean {
  return prefers(request.headers.get("accept"), RECEIPT_TYPE);
}

export function receiptResponse(receipt: string): Response {
  return new Response(receipt, { headers: { "content-type": RECEIPT_TYPE } });
}

/** `userId`: whose record it is. Omitted: it is everyone's. */
export async function signReceipt(
  settings: Config,
  kind: "match" | "withdrawal" | "liabilities",
  body: unknown,
  userId?: string,
): Promise<string> {
  const header = {
    alg: "EdDSA",
    typ: `${kind}-receipt+jws`,
    kid: signingKeyId(settings),
    iss: settings.DEPLOYMENT,
    sub: userId,
    iat: Math.floor(now() / 1_000),
  };
  const signed = `${encoded(header)}.${encoded(body)}`;
  const { signature } = await signText(settings, signed);
  return `${signed}.${signature}`;
}

/** The record of a receipt that this service has signed and stored. */
export function receiptRecord(receipt: string): unknown {
  return JSON.parse(Buffer.from(receipt.split(".")[1] ?? "", "base64url").toString());
}

function encoded(json: unknown): string {
  return Buffer.from(JSON.stringify(json)).toString("base64url");
}
