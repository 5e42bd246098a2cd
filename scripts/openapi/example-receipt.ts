/** The receipt of an example, which the example of GET /.well-known/jwks.json verifies. */
import { createPrivateKey, sign } from "node:crypto";
import type { Operation } from "./describe.ts";

const PKCS8_PREFIX = "302e020100300506032b657004220420";
const SEED = "c2ltdWxhdGVkLWF1ZGl0LXNlZWQtMDEyMzQ1Njc4OWE";

export function addReceipt({ operationId, responses }: Operation): void {
  for (const { content = {} } of Object.values(responses)) {
    const receipt = content["application/jose"];
    if (receipt === undefined) continue;
    const header = {
      alg: "EdDSA",
      typ: `${operationId.slice("get".length).toLowerCase()}-receipt+jws`,
      kid: "a1",
      iss: "test",
      sub: operationId === "getLiabilities" ? undefined : "0190a0b0-0000-7000-8000-000000000008",
      iat: 1_795_125_600,
    };
    const signed = `${encoded(header)}.${encoded(content["application/json"]?.example)}`;
    const der = Buffer.concat([Buffer.from(PKCS8_PREFIX, "hex"), Buffer.from(SEED, "base64url")]);
    const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
    receipt.example = `${signed}.${sign(null, Buffer.from(signed), key).toString("base64url")}`;
  }
}

function encoded(json: unknown): string {
  return Buffer.from(JSON.stringify(json)).toString("base64url");
}
