/** Reading one request, quote or match by its id: who sees what. */
import { expect, it } from "vitest";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { apiOf } from "../support/http.ts";
import { command, openMarket, quotedMarket, submit } from "../support/market.ts";
import { newUser } from "../support/users.ts";

const statusAndCode = ({ status, json }: { status: number; json: Record<string, unknown> }) =>
  [status, json["code"]] as const;

it("shows a request to its owner always, and to others while it is open", async () => {
  const { requester, maker, request } = await openMarket();
  const target = `/rfq/get-request?request_id=${request.request_id}`;
  const [owner, other] = [apiOf(requester), apiOf(maker)];
  expect((await owner.get(target)).json).toMatchObject({
    request_id: request.request_id,
    user_id: requester.userId,
    quote_count: 0,
  });
  const seen = await other.get(target);
  expect(seen.json).toMatchObject({ status: "open", user_id: null });
  expect(seen.json).not.toHaveProperty("quote_count");

  await submit(command.cancelRequest(requester, request.request_id));
  expect((await owner.get(target)).json["status"]).toBe("cancelled");
  expect(statusAndCode(await other.get(target))).toEqual([404, "request_unknown"]);
});

it("shows a quote to its maker and to the requester only", async () => {
  const { requester, maker, quote } = await quotedMarket();
  const target = `/rfq/get-quote?quote_id=${quote.quote_id}`;
  for (const party of [requester, maker])
    expect((await apiOf(party).get(target)).json).toMatchObject({
      quote_id: quote.quote_id,
      status: "open",
    });
  const stranger = await apiOf(await newUser()).get(target);
  expect(statusAndCode(stranger)).toEqual([404, "quote_unknown"]);
});

it("shows a match to both parties by each of its ids", async () => {
  const { requester, maker, request, quote } = await quotedMarket();
  const match = await apiOf(requester).post("/rfq/accept", { quote_id: quote.quote_id });
  const ids = [
    `match_id=${match.json["match_id"]}`,
    `quote_id=${quote.quote_id}`,
    `request_id=${request.request_id}`,
  ];
  const stranger = apiOf(await newUser());
  for (const id of ids) {
    const target = `/rfq/get-match?${id}`;
    expect((await apiOf(requester).get(target)).json).toEqual(match.json);
    expect((await apiOf(maker).get(target)).json).toEqual({ ...match.json, role: "maker" });
    expect(statusAndCode(await stranger.get(target))).toEqual([404, "match_unknown"]);
  }
});

it("returns 404 for ids that do not exist, and 400 unless one id of a match is given", async () => {
  const caller = apiOf(await newUser());
  const id = uuidv7();
  for (const [target, code] of [
    [`/rfq/get-request?request_id=${id}`, "request_unknown"],
    [`/rfq/get-quote?quote_id=${id}`, "quote_unknown"],
    [`/rfq/get-match?match_id=${id}`, "match_unknown"],
  ] as const)
    expect(statusAndCode(await caller.get(target))).toEqual([404, code]);
  for (const query of ["", `?match_id=${id}&quote_id=${id}`])
    expect((await caller.get(`/rfq/get-match${query}`)).json["errors"]).toMatchObject([
      { path: "query.match_id" },
    ]);
});
