/** Venue ids are configuration: a deployment serves its own, and refuses others by name. */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { config } from "../../src/platform/config.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { testSettings } from "../support/settings.ts";
import { apiOf, send } from "../support/http.ts";
import { newUser } from "../support/users.ts";

const OTHER = JSON.stringify([
  {
    venue_id: "poly_2026",
    chain: "local",
    outcome_tokens: "0x0000000000000000000000000000000000000101",
  },
]);
const changes = { VENUES: OTHER };

it("a deployment lists its own venues, and refuses every other one by name", async () => {
  const api = apiOf(await newUser(), changes);
  expect((await api.get("/config")).json["venues"]).toMatchObject([{ venue_id: "poly_2026" }]);
  const errors = async (response: Promise<{ status: number; json: Record<string, any> }>) => {
    const { status, json } = await response;
    return [status, json["errors"]];
  };
  const refused = (path: string) => [400, [{ path, message: "must be one of poly_2026" }]];
  const asset = { venue_id: "venue_one", asset_id: "0x1" };
  const query = "venue_id=venue_one&asset_id=0x1";
  const terms = { ...asset, amount: 1, side: "Bid" };
  expect(await errors(api.post("/rfq/request", terms))).toEqual(refused("body.venue_id"));
  expect(await errors(api.delete(`/rfq/quotes?${query}`))).toEqual(refused("query.venue_id"));
  expect(await errors(api.delete("/rfq/quotes", asset))).toEqual(refused("body.venue_id"));
  expect(await errors(api.get("/custody/get-ledger?venue=venue_one"))).toEqual(
    refused("query.venue"),
  );
  for (const path of ["/rfq/request", "/rfq/get-trades", "/custody/get-balance", "/markets"])
    expect(await errors(api.get(`${path}?${query}`))).toEqual(refused("query.venue_id"));
});

it("a stream of an unknown venue is refused before it exists", async () => {
  const venue = "venue_of_nobody";
  const response = await send(`/rfq/stream?ticket=t&venue_id=${venue}`, {
    headers: { upgrade: "websocket" },
  });
  expect(await response.json()).toMatchObject({
    status: 400,
    errors: [{ path: "query.venue_id" }],
  });
  expect(await all(env.DB, sql`SELECT 1 FROM streams WHERE name = ${`venue:${venue}`}`)).toEqual(
    [],
  );
});

it("other venues trade as the three of the interface do", async () => {
  const api = apiOf(await newUser(), changes);
  const asset = { venue_id: "poly_2026", asset_id: "0x7" };
  // The book's object has the settings of the tests, which do not matter to a request.
  const opened = await api.post("/rfq/request", { ...asset, amount: 1, side: "Bid" });
  expect(opened).toMatchObject({ status: 201, json: asset });
  const listed = await api.get("/rfq/request?venue_id=poly_2026");
  expect(listed.json["items"]).toMatchObject([asset]);
});

it.each(["Venue", "1venue", "a:b", "a;b", "", "x".repeat(33), "a-b"])(
  "refuses the venue id %j in the settings",
  (venue_id) => {
    const [venue] = JSON.parse(OTHER) as object[];
    const settings = { ...testSettings(), VENUES: JSON.stringify([{ ...venue, venue_id }]) };
    expect(() => config(settings)).toThrow("VENUES");
  },
);

it("refuses two venues of one id in the settings", () => {
  const [venue] = JSON.parse(OTHER) as object[];
  const settings = { ...testSettings(), VENUES: JSON.stringify([venue, venue]) };
  expect(() => config(settings)).toThrow("two venues of the same id");
});
