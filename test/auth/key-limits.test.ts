import { describe, expect, it } from "vitest";
import { apiOf, codeOf, type Signer } from "../support/http.ts";
import { newAsset } from "../support/ledger.ts";
import { newKey, newUser, type TestUser, setActiveFrom } from "../support/users.ts";

const KEYS = "/auth/api-keys";
const NONE = { venues: null, max_usdc_per_trade: null, max_usdc_per_day: null };

async function minted(user: TestUser, fields: object): Promise<Signer & { json: any }> {
  const { status, json } = await apiOf(user).post(KEYS, {
    label: "bot",
    scopes: ["read", "trade"],
    ...fields,
  });
  expect(status).toBe(201);
  return { apiKeyId: json["api_key_id"], secret: json["secret"], json };
}

describe("the limits of a key", () => {
  it("are shown when it is minted, in the list and by whoami", async () => {
    const user = await newUser();
    const given = {
      venues: ["venue_two", "venue_one"],
      max_usdc_per_trade: "1000",
      max_usdc_per_day: 9_007_199_254_740_991,
    };
    const limits = {
      venues: ["venue_one", "venue_two"],
      max_usdc_per_trade: "0x3e8",
      max_usdc_per_day: "0x1fffffffffffff",
    };
    const key = await minted(user, { limits: given });
    expect(key.json["limits"]).toEqual(limits);
    expect((await apiOf(user).get(KEYS)).json["items"]).toMatchObject([{ limits }]);
    expect((await apiOf(key).get("/auth/whoami")).json["limits"]).toEqual(limits);
    expect((await apiOf(user).get("/auth/whoami")).json["limits"]).toBeNull();
  });

  it.each([[undefined], [null]])("are null if they are %s", async (limits) => {
    const key = await minted(await newUser(), limits === undefined ? {} : { limits });
    expect(key.json).toMatchObject({
      limits: null,
      require_idempotency: false,
      approved_at: null,
    });
    expect(key.json["active_from"] <= key.json["created_at"]).toBe(true);
  });

  it("may be partial", async () => {
    const key = await minted(await newUser(), { limits: { max_usdc_per_day: 0 } });
    expect(key.json["limits"]).toEqual({ ...NONE, max_usdc_per_day: "0x0" });
  });

  it.each([
    [{ venues: [] }, "body.limits.venues"],
    [{ venues: ["nowhere"] }, "body.limits.venues.0"],
    [{ max_usdc_per_trade: -1 }, "body.limits.max_usdc_per_trade"],
    [{ max_usdc_per_day: "9007199254740992" }, "body.limits.max_usdc_per_day"],
    [{ max_usdc_per_week: 1 }, "body.limits.max_usdc_per_week"],
  ])("are rejected as %j", async (limits, path) => {
    const api = apiOf(await newUser());
    const { status, json } = await api.post(KEYS, { label: "bot", scopes: ["trade"], limits });
    expect(status).toBe(400);
    expect(json["errors"]).toMatchObject([{ path }]);
  });
});

describe("require_idempotency", () => {
  const asked = () => ({ ...newAsset(), key: undefined, amount: 1, side: "Bid" });

  it("demands the key of a request and of a quote in the body", async () => {
    const [user, maker] = [await newUser(), await newUser({ usdc: 1_000n })];
    const strict = apiOf(await minted(user, { require_idempotency: true }));
    const header = { "idempotency-key": "in-the-header" };
    const body = { ...asked(), idempotency_key: "in-the-body" };
    const withoutKey = await strict.post("/rfq/request", asked());
    expect(withoutKey.json["errors"]).toMatchObject([{ path: "body.idempotency_key" }]);
    expect(await codeOf(await strict.post("/rfq/request", asked(), header))).toBe(
      "400 invalid_request",
    );
    const opened = await strict.post("/rfq/request", body);
    expect(opened.status).toBe(201);
    expect((await strict.post("/rfq/request", body)).json).toEqual(opened.json);

    const ofMaker = apiOf(await minted(maker, { require_idempotency: true }));
    const quote = { request_id: opened.json["request_id"], price: 1 };
    expect(await codeOf(await ofMaker.post("/rfq/quote", quote, header))).toBe(
      "400 invalid_request",
    );
    const placed = await ofMaker.post("/rfq/quote", { ...quote, idempotency_key: "q" });
    expect(await codeOf(placed)).toBe("409 insufficient_funds");
  });

  it("binds neither sessions nor other keys nor other routes", async () => {
    const user = await newUser();
    const strict = apiOf(await minted(user, { require_idempotency: true }));
    const lax = apiOf(await minted(user, {}));
    expect((await apiOf(user).post("/rfq/request", asked())).status).toBe(201);
    expect((await lax.post("/rfq/request", asked())).status).toBe(201);
    expect((await strict.delete("/rfq/quotes", {})).status).toBe(200);
  });
});

it("a key without active_from has no scopes", async () => {
  const key = await newKey(await newUser());
  await setActiveFrom(key, null);
  const api = apiOf(key);
  expect((await api.get("/auth/whoami")).json["scopes"]).toEqual([]);
  expect(await codeOf(await api.get("/custody/get-usdc-balance"))).toBe("403 scope_missing");
});
