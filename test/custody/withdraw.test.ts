import { env } from "cloudflare:workers";
import { getContractAddress } from "viem";
import { privateKeyToAddress } from "viem/accounts";
import { expect, it } from "vitest";
import { checksumAddress } from "../../src/assets/address.ts";
import type { AssetKey } from "../../src/assets/asset.ts";
import { paymentId } from "../../src/chain/payment-id.ts";
import { createDepositAddress } from "../../src/custody/deposit-address.ts";
import { withdraw as commitWithdrawal } from "../../src/custody/withdraw.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { defaultChain } from "../../src/platform/config.ts";
import { all, blob, first, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { countingCalls } from "../support/counting-database.ts";
import { apiOf, settings } from "../support/http.ts";
import { balances, edit, fund, newAddress, newAsset } from "../support/ledger.ts";
import { newKey, newUser } from "../support/users.ts";

const db = env.DB;
const DEFAULT_CHAIN = "local";

/** A user with funds in an asset, and a key that may withdraw them. */
async function withFunds(amount: bigint, changes: Record<string, string> = {}) {
  const { key: asset, ...assetOnWire } = newAsset();
  const { userId } = await newUser({ [asset]: amount });
  const key = await newKey({ userId });
  const api = apiOf(key, changes);
  let next = 0;
  const withdraw = (fields: Record<string, unknown> = {}) =>
    api.post("/custody/withdraw", {
      client_withdrawal_id: `w-${next++}`,
      amount: "10",
      to_address: newAddress(),
      ...assetOnWire,
      ...fields,
    });
  return { userId, asset, assetOnWire, key, api, withdraw };
}

/** Withdraws as the route does once it has authenticated the actor. */
function withdrawAs(actor: Actor, asset: AssetKey, amount: bigint, database = db) {
  const terms = { clientWithdrawalId: uuidv7(), amount, toAddress: newAddress() };
  return commitWithdrawal(database, settings(), {
    actor,
    ip: undefined,
    terms: { ...terms, chain: DEFAULT_CHAIN, asset },
  });
}

it("queues a withdrawal with two calls of D1, and refuses one with three", async () => {
  const { asset, key } = await withFunds(10n);
  const { db: counted, count } = countingCalls();
  await withdrawAs(key.actor, asset, 10n, counted);
  expect(count()).toBe(2);
  const second = withdrawAs(key.actor, asset, 10n, counted);
  await expect(second).rejects.toMatchObject({ data: { code: "insufficient_funds" } });
  expect(count()).toBe(5);
});

it("queues a withdrawal with reserve, entries, audit row and event", async () => {
  const { userId, asset, assetOnWire, withdraw, api } = await withFunds(100n);
  const to = newAddress();
  const response = await withdraw({ amount: "0x1e", to_address: to });
  expect(response.status).toBe(202);
  expect(response.json).toMatchObject({
    status: "queued",
    amount: "0x1e",
    chain: DEFAULT_CHAIN,
    ...assetOnWire,
    failure: null,
    transaction_hash: null,
  });
  expect(response.json["to_address"].toLowerCase()).toBe(to);
  expect(response.headers.get("idempotency-replayed")).toBeNull();
  expect(await balances(userId, asset)).toEqual([70n, 30n]);
  const ledger = await api.get("/custody/get-ledger?reasons=withdrawal");
  expect(
    ledger.json["items"].map((entry: any) => [
      entry.account,
      entry.delta,
      entry.balance_after,
      entry.ref_id,
    ]),
  ).toEqual([
    ["pending", "30", "30", response.json["withdrawal_id"]],
    ["available", "-30", "70", response.json["withdrawal_id"]],
  ]);
  expect(
    await first(
      db,
      sql`SELECT kind, actor, subject_id FROM audit_events
        WHERE user_id = ${uuid(userId)} AND kind NOT LIKE 'api_key_%'`,
    ),
  ).toEqual({
    kind: "withdrawal_queued",
    actor: "api_key",
    subject_id: response.json["withdrawal_id"],
  });
  expect(
    await all(
      db,
      sql`SELECT e.type FROM stream_events e JOIN streams s USING (stream_id)
        WHERE s.name = ${`account:${userId}`} AND e.type LIKE 'withdrawal.%'`,
    ),
  ).toEqual([{ type: "withdrawal.queued" }]);
});

it("returns the original for a replay in another spelling", async () => {
  const { userId, asset, withdraw } = await withFunds(2_000n);
  const to = newAddress();
  const original = await withdraw({ client_withdrawal_id: "same", amount: "1000", to_address: to });
  const again = await withdraw({
    client_withdrawal_id: "same",
    amount: "0x3E8",
    to_address: `0x${to.slice(2).toUpperCase()}`,
    chain: DEFAULT_CHAIN,
  });
  expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([202, "true"]);
  expect(again.json).toEqual(original.json);
  expect(await balances(userId, asset)).toEqual([1_000n, 1_000n]);
});

it.each(["lower", "upper", "mixed"] as const)(
  "pays an id in the form of a UUID once, stored in %s case by any release",
  async (stored) => {
    const { userId, asset, withdraw, api } = await withFunds(100n);
    const to_address = newAddress();
    const lower = "0d6c1f5e-6a0b-4f0e-9f53-3b1d5c1c8a77";
    const mixed = `${lower.slice(0, 8).toUpperCase()}${lower.slice(8)}`;
    const spellings = { lower, upper: lower.toUpperCase(), mixed };
    const paid = await withdraw({ client_withdrawal_id: spellings[stored], to_address });
    expect([paid.status, paid.json["client_withdrawal_id"]]).toEqual([202, lower]);
    const mine = sql`user_id = ${uuid(userId)}`;
    await edit(db, "withdrawals", [
      sql`UPDATE withdrawals SET client_withdrawal_id = ${spellings[stored]} WHERE ${mine}`,
    ]);
    // Each of the release that stored it, of ours, and as it was given.
    for (const id of new Set([spellings[stored], ...(stored === "mixed" ? [] : [lower, mixed])])) {
      const again = await withdraw({ client_withdrawal_id: id, to_address });
      expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([202, "true"]);
      const read = await api.get(`/custody/get-withdrawal?client_withdrawal_id=${id}`);
      expect(read.json["withdrawal_id"]).toBe(paid.json["withdrawal_id"]);
    }
    expect(await balances(userId, asset)).toEqual([90n, 10n]);
  },
);

it("rejects a reused id with other terms", async () => {
  const { userId, asset, withdraw } = await withFunds(100n);
  const to = newAddress();
  await fund(userId, "usdc", 100n);
  await withdraw({ client_withdrawal_id: "id", to_address: to });
  for (const other of [
    { amount: "11" },
    { to_address: newAddress() },
    { venue_id: undefined, asset_id: undefined },
  ]) {
    const response = await withdraw({ client_withdrawal_id: "id", to_address: to, ...other });
    expect([response.status, response.json["code"]]).toEqual([409, "client_withdrawal_id_reused"]);
  }
  expect(await balances(userId, asset)).toEqual([90n, 10n]);
});

it("lets two users use the same id", async () => {
  const one = await withFunds(10n);
  const two = await withFunds(20n);
  expect((await one.withdraw({ client_withdrawal_id: "mine" })).status).toBe(202);
  expect((await two.withdraw({ client_withdrawal_id: "mine" })).status).toBe(202);
  expect((await two.withdraw({ client_withdrawal_id: "MINE" })).json["status"]).toBe("queued");
});

it("serves replays while paused; a rejected withdrawal uses up no id", async () => {
  const { withdraw } = await withFunds(100n);
  const to = newAddress();
  await withdraw({ client_withdrawal_id: "old", to_address: to });
  await all(
    db,
    sql`INSERT INTO kill_switches (name, reason, since) VALUES ('withdrawals_paused', 'test', 0)`,
  );
  try {
    expect(
      (await withdraw({ client_withdrawal_id: "old", to_address: to })).headers.get(
        "idempotency-replayed",
      ),
    ).toBe("true");
    const refused = await withdraw({ client_withdrawal_id: "new", to_address: to });
    expect([refused.status, refused.json["code"]]).toEqual([503, "withdrawals_paused"]);
  } finally {
    await all(db, sql`DELETE FROM kill_switches WHERE name = 'withdrawals_paused'`);
  }
  expect(
    (await withdraw({ client_withdrawal_id: "new", to_address: to })).headers.get(
      "idempotency-replayed",
    ),
  ).toBeNull();
});

it("rejects any amount above the available balance exactly", async () => {
  const { userId, asset, withdraw } = await withFunds(100n);
  for (const amount of [101n, 2n ** 62n, 2n ** 62n + 1n, 2n ** 64n, 2n ** 256n - 1n]) {
    const response = await withdraw({ amount: amount.toString() });
    expect([
      response.status,
      response.json["code"],
      response.json["available"],
      response.json["required"],
    ]).toEqual([409, "insufficient_funds", "0x64", `0x${amount.toString(16)}`]);
  }
  expect(await balances(userId, asset)).toEqual([100n, 0n]);
});

it("queues one of 20 parallel withdrawals of the whole balance", async () => {
  const { userId, asset, withdraw } = await withFunds(50n);
  const responses = await Promise.all(Array.from({ length: 20 }, () => withdraw({ amount: "50" })));
  expect(responses.map((response) => response.status).toSorted((a, b) => a - b)).toEqual([
    202,
    ...Array.from({ length: 19 }, () => 409),
  ]);
  expect(await balances(userId, asset)).toEqual([0n, 50n]);
});

it("20 identical parallel withdrawals have one effect and one result", async () => {
  const { userId, asset, withdraw } = await withFunds(500n);
  const to = newAddress();
  const responses = await Promise.all(
    Array.from({ length: 20 }, () => withdraw({ client_withdrawal_id: "one", to_address: to })),
  );
  expect(new Set(responses.map((response) => response.json["withdrawal_id"])).size).toBe(1);
  expect(
    responses.filter((response) => response.headers.get("idempotency-replayed") === null),
  ).toHaveLength(1);
  expect(await balances(userId, asset)).toEqual([490n, 10n]);
});

it("enforces limits of amount and daily number", async () => {
  const { withdraw, userId } = await withFunds(1_000n, {
    WITHDRAWAL_MIN_UNITS: "5",
    WITHDRAWAL_MAX_UNITS: "100",
    WITHDRAWAL_DAILY_COUNT: "2",
  });
  for (const amount of ["4", "101"]) {
    const response = await withdraw({ amount });
    expect([response.json["code"], response.json["minimum"], response.json["maximum"]]).toEqual([
      "withdrawal_amount_limit",
      "0x5",
      "0x64",
    ]);
  }
  expect([(await withdraw()).status, (await withdraw()).status]).toEqual([202, 202]);
  const third = await withdraw();
  expect([third.status, third.json["code"], third.json["remaining"]]).toEqual([
    409,
    "withdrawal_daily_limit",
    0,
  ]);
  await edit(db, "withdrawals", [
    sql`UPDATE withdrawals SET created_at = created_at - 86400000
      WHERE user_id = ${uuid(userId)}`,
  ]);
  expect((await withdraw()).status).toBe(202);
});

it("rejects a destination that reverted three times", async () => {
  const { withdraw, userId } = await withFunds(1_000n);
  const to = newAddress();
  for (let i = 0; i < 3; i++) {
    const { json } = await withdraw({ to_address: to });
    await all(
      db,
      sql`UPDATE withdrawals SET status = 'failed', failure_code = 'payment_reverted'
        WHERE withdrawal_id = ${uuid(json["withdrawal_id"])}`,
    );
  }
  const refused = await withdraw({ to_address: to });
  expect([refused.status, refused.json["code"]]).toEqual([409, "destination_refused"]);
  expect((await withdraw()).status).toBe(202);
  const made = sql`SELECT count(*) AS n FROM withdrawals WHERE user_id = ${uuid(userId)}`;
  expect(await first(db, made)).toEqual({ n: 4 });
  const other = await withFunds(10n);
  expect((await other.withdraw({ to_address: to })).status).toBe(202);
  await edit(db, "withdrawals", [
    sql`UPDATE withdrawals SET created_at = created_at - 30 * 86400000
      WHERE user_id = ${uuid(userId)}`,
  ]);
  expect((await withdraw({ to_address: to })).status).toBe(202);
});

it("rejects an id whose payment on its chain was accepted after a restore", async () => {
  const { withdraw, userId } = await withFunds(1_000n);
  const accept = (chain: string, id: string) =>
    all(
      db,
      sql`INSERT INTO accepted_payments (acceptance_id, chain, payment_id, kind, reason, actor, at,
          accepted_group)
        VALUES (${uuid(uuidv7())}, ${chain}, ${blob(paymentId(settings(), userId, id))}, 'rescue',
          'test', 'test', 0, 0)`,
    );
  await accept(DEFAULT_CHAIN, "accepted");
  await accept("elsewhere", "on-another-chain");
  const refused = await withdraw({ client_withdrawal_id: "accepted" });
  expect([refused.status, refused.json["code"]]).toEqual([409, "client_withdrawal_id_reused"]);
  for (const id of ["on-another-chain", "never"])
    expect((await withdraw({ client_withdrawal_id: id })).status).toBe(202);
});

it("limits a chain to what it issued, less withdrawals in flight", async () => {
  const { key } = newAsset();
  const rich = await newUser({ [key]: 30n });
  await fund(rich.userId, key, 100n, { chain: "elsewhere" });
  const { actor } = await newKey(rich);
  await withdrawAs(actor, key, 20n);
  await expect(withdrawAs(actor, key, 11n)).rejects.toMatchObject({
    data: { code: "chain_liquidity", extensions: { available: "0xa" } },
  });
  await withdrawAs(actor, key, 10n);
});

it("no write passes for a frozen user or an ended key, even if the edge let it", async () => {
  const { key, userId, asset } = await withFunds(100n);
  const rejectedAs = async (code: string) =>
    expect(withdrawAs(key.actor, asset, 10n)).rejects.toMatchObject({ data: { code } });
  await all(db, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(userId)}`);
  await rejectedAs("account_frozen");
  await all(db, sql`UPDATE users SET frozen_at = NULL WHERE user_id = ${uuid(userId)}`);
  await all(db, sql`UPDATE api_keys SET expires_at = 1 WHERE api_key_id = ${uuid(key.apiKeyId)}`);
  await rejectedAs("api_key_expired");
  await all(db, sql`UPDATE api_keys SET revoked_at = 1 WHERE api_key_id = ${uuid(key.apiKeyId)}`);
  await rejectedAs("api_key_revoked");
  expect(await balances(userId, asset)).toEqual([100n, 0n]);
});

it("rejects our own contracts and accounts and the zero address", async () => {
  const { withdraw } = await withFunds(100n);
  const chain = defaultChain(settings());
  const outcome = settings().VENUES[0]?.outcome_tokens ?? "";
  for (const to_address of [
    chain.vault,
    chain.factory,
    chain.usdc,
    outcome,
    // The forwarder is the factory's first contract.
    getContractAddress({ from: checksumAddress(chain.factory), nonce: 1n }),
    privateKeyToAddress(`0x${"11".repeat(32)}`),
    `0x${"0".repeat(40)}`,
  ]) {
    const response = await withdraw({ to_address });
    expect([response.status, response.json["errors"]?.[0].path]).toEqual([400, "body.to_address"]);
  }
});

it("does not tell a caller without funds which addresses are deposit addresses", async () => {
  const { userId, asset, withdraw } = await withFunds(5n);
  const chain = defaultChain(settings());
  const { actor } = await newUser();
  const theirs = await createDepositAddress(db, settings(), { actor, chain, ip: undefined });
  const to = { to_address: theirs.address };
  const withoutFunds = await withdraw(to);
  const stranger = await withdraw();
  expect([withoutFunds.status, withoutFunds.json["code"]]).toEqual([409, "insufficient_funds"]);
  expect(withoutFunds.json["detail"]).toBe(stranger.json["detail"]);
  await fund(userId, asset, 100n);
  const refused = await withdraw(to);
  expect([refused.status, refused.json["code"]]).toEqual([409, "destination_refused"]);
  expect(refused.json["detail"]).toBe("The service does not pay to this address.");
  expect(await balances(userId, asset)).toEqual([105n, 0n]);
});

it("answers 400 to invalid bodies and 404 to unknown chains", async () => {
  const { withdraw } = await withFunds(100n);
  const wrong = [
    { amount: "0" },
    { amount: "-1" },
    { amount: 1.5 },
    { client_withdrawal_id: "" },
    { client_withdrawal_id: "a b" },
    { client_withdrawal_id: "x".repeat(65) },
    { venue_id: undefined },
    { asset_id: undefined },
    { to_address: "0x12" },
    { to_address: `0x${"Aa".repeat(20)}` },
    { surprise: 1 },
  ];
  for (const fields of wrong)
    expect([fields, (await withdraw(fields)).status]).toEqual([fields, 400]);
  expect((await withdraw({ chain: "nowhere" })).json["code"]).toBe("chain_unknown");
});

it("finds a withdrawal by either id, only for its owner", async () => {
  const owner = await withFunds(100n);
  const { json } = await owner.withdraw({ client_withdrawal_id: "find-me" });
  expect(
    (await owner.api.get(`/custody/get-withdrawal?withdrawal_id=${json["withdrawal_id"]}`)).json,
  ).toEqual(json);
  expect(
    (await owner.api.get("/custody/get-withdrawal?client_withdrawal_id=find-me")).json,
  ).toEqual(json);
  const stranger = await withFunds(0n);
  expect(
    (await stranger.api.get(`/custody/get-withdrawal?withdrawal_id=${json["withdrawal_id"]}`))
      .status,
  ).toBe(404);
  expect((await owner.api.get("/custody/get-withdrawal")).status).toBe(400);
});

it("pages withdrawals newest first without skip or repeat", async () => {
  const { withdraw, api } = await withFunds(100n);
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.unshift((await withdraw()).json["withdrawal_id"]);
  const seen = await api.list("/custody/get-withdrawals?limit=2&status=queued");
  expect(seen.map((item) => item["withdrawal_id"])).toEqual(ids);
  expect((await api.get("/custody/get-withdrawals?status=failed")).json).toEqual({
    items: [],
    next_cursor: null,
  });
});
