/** A receipt shows others what the service holds, and survives the next key. */
import { env } from "cloudflare:workers";
import { compactVerify, importJWK } from "jose";
import { expect, it } from "vitest";
import { type SigningKeys, verifyReceipt } from "../../packages/client/src/index.ts";
import { USDC } from "../../src/assets/asset.ts";
import { config } from "../../src/platform/config.ts";
import { readUuid } from "../../src/platform/sql.ts";
import { apiOf, bearer, send } from "../support/http.ts";
import { fund, queueWithdrawal } from "../support/ledger.ts";
import { quotedMarket } from "../support/market.ts";
import { newUser } from "../support/users.ts";

const JOSE = "application/jose";
const [[newest, seed] = ["", ""], ...older] = Object.entries(config(env).AUDIT_KEYS);
const keysOf = async () => (await send("/.well-known/jwks.json")).json<SigningKeys>();
const read = (token: string, target: string, accept = JOSE, settings = {}) =>
  send(target, { headers: { ...bearer(token), accept }, env: settings });

async function matched() {
  const { requester, maker, quote } = await quotedMarket();
  const { json } = await apiOf(requester).post("/rfq/accept", { quote_id: quote.quote_id });
  return { requester, maker, target: `/rfq/get-match?match_id=${json["match_id"]}` };
}

it("is the record of a match as its owner reads it, signed by the newest key", async () => {
  const { requester, maker, target } = await matched();
  const keys = await keysOf();
  for (const { userId, token } of [requester, maker]) {
    const response = await read(token, target);
    expect(response.headers.get("content-type")).toBe(JOSE);
    const text = await response.text();
    const receipt = await verifyReceipt(text, keys);
    const deployment = config(env).DEPLOYMENT;
    expect(receipt).toMatchObject({ kind: "match", deployment, user_id: userId, key_id: newest });
    expect(Math.abs(receipt.at.getTime() - Date.now())).toBeLessThan(5_000);
    const plain = await (await read(token, target, "application/json")).text();
    // By a library, too. The payload is the body byte by byte.
    const [key] = keys.keys;
    const { payload } = await compactVerify(text, await importJWK(key!, "EdDSA"));
    expect(new TextDecoder().decode(payload)).toBe(plain);
  }
  const stranger = await read((await newUser()).token, target);
  expect([stranger.status, stranger.headers.get("content-type")]).toEqual([
    404,
    "application/problem+json",
  ]);
});

it("fails if a letter of it differs, or if another key signed it", async () => {
  const user = await newUser();
  const { token } = user;
  await fund(user.userId, USDC, 5_000_000n);
  const { withdrawalId } = await queueWithdrawal(user, USDC, 1_000_000n);
  const withdrawal_id = readUuid(withdrawalId);
  const target = `/custody/get-withdrawal?withdrawal_id=${withdrawal_id}`;
  const text = await (await read(token, target)).text();
  const keys = await keysOf();
  expect(await verifyReceipt(text, keys)).toMatchObject({
    kind: "withdrawal",
    record: { withdrawal_id, amount: 1_000_000n },
  });
  const [head = "", body = "", signature = ""] = text.split(".");
  const other = (part: string) => Buffer.from(part, "base64url").toString().replace("1", "2");
  const encoded = (part: string) => Buffer.from(part).toString("base64url");
  for (const altered of [
    [encoded(other(head)), body, signature],
    [head, encoded(other(body)), signature],
    [head, body, encoded("no signature")],
    [head, body],
    [encoded('{"alg":"none","typ":"match-receipt+jws"}'), body, ""],
  ])
    await expect(verifyReceipt(altered.join("."), keys)).rejects.toThrow();
  const foreign = { keys: keys.keys.map((key) => ({ ...key, kid: `${key.kid}-other` })) };
  await expect(verifyReceipt(text, foreign)).rejects.toThrow("no receipt");
});

it("is still verified after the next key is the first", async () => {
  const { requester, target } = await matched();
  const before = Object.fromEntries(older.length > 0 ? older : [[newest, seed]]);
  const text = await (
    await read(requester.token, target, JOSE, { AUDIT_KEYS: JSON.stringify(before) })
  ).text();
  expect((await verifyReceipt(text, await keysOf())).key_id).toBe(Object.keys(before)[0]);
});
