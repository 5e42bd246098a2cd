import { env } from "cloudflare:workers";
import { reasonCode, stepCode } from "../../src/ledger/codes.ts";
import { expect, it } from "vitest";
import { revokeApiKey } from "../../src/auth/revoke-key.ts";
import { UNREACHABLE } from "../../src/ledger/old-rows.ts";
import { csvResponse } from "../../src/custody/list-entries.ts";
import { createDepositAddress } from "../../src/custody/deposit-address.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import { all, blob, first, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf } from "../support/http.ts";
import { fund, newAsset } from "../support/ledger.ts";
import { newKey, newUser } from "../support/users.ts";

const db = env.DB;
const settings = config(env);
const chain = defaultChain(settings);

async function caller(funds: Record<string, bigint> = {}) {
  const user = await newUser(funds);
  return { ...user, api: apiOf(user) };
}

/** Marks the factory as verified, because the chain of the test settings has no RPC endpoint. */
const trustFactory = () =>
  all(
    db,
    sql`INSERT INTO chain_factories (chain, factory, verified_at)
      SELECT ${chain.chain}, ${blob(chain.factory)}, 1
    WHERE NOT EXISTS (SELECT 1 FROM chain_factories
      WHERE chain = ${chain.chain} AND factory = ${blob(chain.factory)})`,
  );

it("issues no address before the factory is verified", async () => {
  await all(db, sql`DELETE FROM chain_factories`);
  const other = { ...chain, chain: "unseen", default: true };
  const refused = await apiOf(await newUser(), {
    CHAINS: JSON.stringify([other, chain]),
  }).post("/custody/create-deposit-address", {});
  expect([refused.status, refused.json["code"], refused.json["outcome"]]).toEqual([
    503,
    "unavailable",
    "none",
  ]);
});

it("a new address becomes current, older ones stay listed, each is audited", async () => {
  await trustFactory();
  const { api, userId } = await caller();
  const made = [];
  for (let i = 0; i < 3; i++)
    made.push(
      await api.post("/custody/create-deposit-address", i === 0 ? "" : { chain: chain.chain }),
    );
  expect(
    made.map((response) => [
      response.status,
      response.json["nonce"],
      response.json["current"],
      response.json["chain"],
    ]),
  ).toEqual([0, 1, 2].map((nonce) => [201, nonce, true, chain.chain]));
  expect(new Set(made.map((response) => response.json["address"])).size).toBe(3);
  const { json } = await api.get("/custody/get-deposit-addresses");
  expect(json["addresses"].map((one: any) => [one.address, one.current])).toEqual([
    [made[2]?.json["address"], true],
    [made[1]?.json["address"], false],
    [made[0]?.json["address"], false],
  ]);
  const audit = await all<{ subject_id: string }>(
    db,
    sql`SELECT subject_id FROM audit_events WHERE user_id = ${uuid(userId)}
      AND kind = 'deposit_address_created' ORDER BY audit_seq`,
  );
  expect(audit.map((row) => row.subject_id)).toEqual(
    made.map((response) => response.json["address"]),
  );
});

it("parallel calls get distinct addresses", async () => {
  const { actor } = await caller();
  const made = await Promise.all(
    Array.from({ length: 5 }, () =>
      createDepositAddress(db, settings, { actor, chain, ip: undefined }),
    ),
  );
  expect(made.map((one) => one.nonce).toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4]);
});

it("limits a user to 50 addresses per chain", async () => {
  const { actor } = await caller();
  for (let i = 0; i < 50; i++)
    await createDepositAddress(db, settings, { actor, chain, ip: undefined });
  await expect(
    createDepositAddress(db, settings, { actor, chain, ip: undefined }),
  ).rejects.toMatchObject({
    data: { code: "deposit_address_limit" },
  });
});

it("issues no address to a frozen user", async () => {
  const { actor, userId } = await caller();
  await all(db, sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(userId)}`);
  await expect(
    createDepositAddress(db, settings, { actor, chain, ip: undefined }),
  ).rejects.toMatchObject({
    data: { code: "account_frozen" },
  });
});

it("shows zeros for an asset never held and accepts any spelling of its id", async () => {
  const { api, userId } = await caller();
  const { venue_id, asset_id, key } = newAsset("venue_two");
  expect((await api.get(`/custody/get-balance?venue_id=${venue_id}&asset_id=0xff`)).json).toEqual({
    venue_id,
    asset_id: "0xff",
    balance: "0x0",
    pending_balance: "0x0",
    promised: "0x0",
  });
  expect((await api.get("/custody/get-usdc-balance")).json).toEqual({
    balance: "0x0",
    pending_balance: "0x0",
    promised: "0x0",
  });
  await fund(userId, key, 255n);
  await fund(userId, "usdc", 2n ** 60n);
  const padded = `0x000${asset_id.slice(2).toUpperCase()}`;
  expect(
    (await api.get(`/custody/get-balance?venue_id=${venue_id}&asset_id=${padded}`)).json,
  ).toEqual({
    venue_id,
    asset_id,
    balance: "0xff",
    pending_balance: "0x0",
    promised: "0x0",
  });
  expect((await api.get("/custody/get-usdc-balance")).json["balance"]).toBe(
    `0x${(2n ** 60n).toString(16)}`,
  );
  expect((await api.get(`/custody/get-balance?asset_id=${asset_id}`)).status).toBe(400);
});

it("lists balances in pages: USDC first, then by venue and asset", async () => {
  const { api, userId } = await caller();
  const keys = [
    newAsset("venue_two").key,
    newAsset("venue_one").key,
    "usdc",
    newAsset("venue_three").key,
  ];
  for (const key of keys) await fund(userId, key, 9n);
  const seen = await api.list("/custody/get-balances?limit=2");
  expect(seen.map((item) => item["venue_id"])).toEqual([
    null,
    "venue_one",
    "venue_three",
    "venue_two",
  ]);
});

it("lists deposits newest first and filters them by status", async () => {
  const { api, userId } = await caller();
  const { key, venue_id, asset_id } = newAsset();
  const one = await fund(userId, key, 3n);
  const two = await fund(userId, "usdc", 4n);
  const { json } = await api.get("/custody/get-deposits?status=credited");
  expect(
    json["items"].map((item: any) => [
      item.deposit_id,
      item.transaction_hash,
      item.amount,
      item.venue_id,
      item.asset_id,
      item.status,
    ]),
  ).toEqual([
    [two.depositId, two.transactionHash, "0x4", null, null, "credited"],
    [one.depositId, one.transactionHash, "0x3", venue_id, asset_id, "credited"],
  ]);
  expect((await api.get("/custody/get-deposits?status=confirming")).json).toEqual({
    items: [],
    next_cursor: null,
  });
  expect((await api.get("/custody/get-deposits?status=lost")).status).toBe(400);
  const page = await api.get("/custody/get-deposits?limit=1");
  expect(
    (await api.get(`/custody/get-deposits?limit=1&last_cursor=${page.json["next_cursor"]}`)).json[
      "items"
    ][0].deposit_id,
  ).toBe(one.depositId);
});

it("a deposit's ledger entry has its transaction hash as ref_id", async () => {
  const { api, userId } = await caller();
  const { key, venue_id, asset_id } = newAsset();
  const deposit = await fund(userId, key, 3n);
  const { json } = await api.get("/custody/get-ledger");
  expect(json).toEqual({
    items: [
      {
        entry_id: expect.any(Number),
        account: "available",
        asset_id,
        venue: venue_id,
        delta: "3",
        balance_after: "3",
        reason: "deposit",
        ref_id: deposit.transactionHash,
        created_at: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
      },
    ],
    next_cursor: null,
  });
});

it("get-ledger accepts its parameters and rejects all others", async () => {
  const { api, userId } = await caller();
  for (let i = 1n; i <= 5n; i++) await fund(userId, "usdc", i);
  const items = async (query: string) =>
    (await api.get(`/custody/get-ledger?${query}`)).json["items"]?.map((item: any) => item.delta);
  const soon = new Date(Date.now() + 3_600_000).toISOString().replace("Z", "+00:00");
  expect(
    await items(
      "account=available&direction=credit&usdc=true&reasons=deposit,trade&min_amount=2&max_amount=4",
    ),
  ).toEqual(["4", "3", "2"]);
  expect(await items(`from=2020-01-01T00:00:00Z&to=${soon}`)).toHaveLength(5);
  expect(await items(`to=2020-01-01T00:00:00Z`)).toEqual([]);
  expect(await items("usdc=false")).toEqual([]);
  expect(await items("limit=4294967295")).toHaveLength(5);
  const wrong = [
    "limit=4294967296",
    "limit=-1",
    "reasons=gift",
    "reasons=",
    "account=other",
    "direction=up",
    "from=yesterday",
    "to=2020-13-01T00:00:00Z",
    "min_amount=-1",
    "min_amount=0x1",
    "min_amount=1.5",
    "last_cursor=-1",
    "last_cursor=x",
    "last_cursor=1.5",
    "usdc=maybe",
    "asset_id=5",
    "venue=venue_nine",
    "ref_id=5",
    "surprise=1",
    "limit=1&limit=2",
    "from=2021-01-01T00:00:00Z&to=2020-01-01T00:00:00Z",
  ];
  for (const query of wrong)
    expect([query, (await api.get(`/custody/get-ledger?${query}`)).status]).toEqual([query, 400]);
});

it("limit 0 repeats the cursor; any integer is a valid cursor", async () => {
  const { api, userId } = await caller();
  for (let i = 1n; i <= 3n; i++) await fund(userId, "usdc", i);
  expect((await api.get("/custody/get-ledger?limit=0")).json).toEqual({
    items: [],
    next_cursor: null,
  });
  expect((await api.get("/custody/get-ledger?limit=0&last_cursor=77")).json).toEqual({
    items: [],
    next_cursor: "77",
  });
  const firstPage = (await api.get("/custody/get-ledger?limit=2")).json;
  expect(firstPage["next_cursor"]).toBe(String(firstPage["items"][1].entry_id));
  const second = (
    await api.get(`/custody/get-ledger?limit=2&last_cursor=${firstPage["next_cursor"]}`)
  ).json;
  expect([second["items"].map((item: any) => item.delta), second["next_cursor"]]).toEqual([
    ["1"],
    null,
  ]);
  for (const far of ["99999999999999", "9223372036854775808", "9".repeat(60)])
    expect((await api.get(`/custody/get-ledger?last_cursor=${far}`)).json["items"]).toHaveLength(3);
  expect((await api.get("/custody/get-ledger?last_cursor=0")).json).toEqual({
    items: [],
    next_cursor: null,
  });
});

it("a statement has all matching entries as CSV and ends with their number", async () => {
  const { api, userId } = await caller();
  const { key, venue_id, asset_id } = newAsset();
  for (let i = 1n; i <= 4n; i++) await fund(userId, i === 2n ? "usdc" : key, i);
  const { headers, text, status } = await api.get("/custody/get-ledger?min_amount=2", {
    accept: "text/csv",
  });
  expect([status, headers.get("content-type")?.startsWith("text/csv")]).toEqual([200, true]);
  const lines = text.split("\r\n");
  expect(lines[0]).toBe(
    "entry_id,account,asset_id,venue,delta,balance_after,reason,ref_id,created_at",
  );
  expect(lines.slice(1, 4).map((line) => line.split(",").slice(1, 6))).toEqual([
    ["available", asset_id, venue_id, "4", "8"],
    ["available", asset_id, venue_id, "3", "4"],
    ["available", "", "", "2", "2"],
  ]);
  expect(lines.slice(4)).toEqual(["# end,3", ""]);
  for (const query of ["limit=5", "last_cursor=5"])
    expect((await api.get(`/custody/get-ledger?${query}`, { accept: "text/csv" })).status).toBe(
      400,
    );
  expect(
    (await api.get("/custody/get-ledger", { accept: "text/html, */*" })).headers.get(
      "content-type",
    ),
  ).toBe("application/json");
});

/** A caller with 10,201 ledger entries, which a statement reads in two chunks. */
async function callerWithHistory() {
  const history = await caller({ usdc: 1_000_000n });
  const pendingAndBack = Array.from({ length: 5_100 }, (_, i) => i);
  const id = await first<{ a: number; p: number }>(
    db,
    sql`SELECT max(iif(kind = 'available', account_id, 0)) AS a, max(iif(kind = 'pending',
      account_id, 0)) AS p FROM accounts WHERE owner = ${uuid(history.userId)}`,
  );
  await all(
    db,
    sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
    SELECT ${id?.a ?? 0}, ${id?.p ?? 0}, 1, ${reasonCode("reserve_rfq")}, randomblob(16),
      ${stepCode("reserve")}, 0, (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1)
      FROM json_each(${JSON.stringify(pendingAndBack)})`,
  );
  return history;
}

it("a statement of several chunks has no gap", async () => {
  const { api } = await callerWithHistory();
  const { text } = await api.get("/custody/get-ledger", { accept: "text/csv" });
  const lines = text.trimEnd().split("\r\n");
  expect(lines.at(-1)).toBe("# end,10201");
  const ids = lines.slice(1, -1).map((line) => Number(line.split(",")[0]));
  expect(new Set(ids).size).toBe(10_201);
  expect(ids).toEqual([...ids].toSorted((a, b) => b - a));
});

it("a statement stops when its credential ends", async () => {
  const { userId } = await callerWithHistory();
  const { actor, apiKeyId } = await newKey({ userId }, ["read"]);
  const statement = (await csvResponse(db, actor, {}, [], UNREACHABLE)).body?.getReader();
  if (statement === undefined) return expect.fail("the statement has no body");
  // The header. The stream reads one chunk ahead of its reader.
  await statement.read();
  await revokeApiKey(db, { apiKeyId, operator: "test" });
  await expect(
    (async () => {
      while (!(await statement.read()).done);
    })(),
  ).rejects.toThrow("the credential has ended");
});

it("every read returns only the caller's records", async () => {
  await caller({ usdc: 5n });
  const stranger = apiOf(await newUser());
  for (const path of ["get-ledger", "get-deposits", "get-withdrawals", "get-balances"])
    expect((await stranger.get(`/custody/${path}`)).json["items"]).toEqual([]);
  expect((await stranger.get("/custody/get-deposit-addresses")).json).toEqual({ addresses: [] });
});
