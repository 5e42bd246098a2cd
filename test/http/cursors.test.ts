/** A cursor belongs to the list that made it. */
import { beforeAll, expect, it } from "vitest";
import { bearer, codeOf, describedRoutes, send } from "../support/http.ts";
import { newUser } from "../support/users.ts";

/** Cursors of the ledger are entry ids, on which clients rely. */
const lists = (await describedRoutes()).filter(
  ({ operation, path }) =>
    path !== "/custody/get-ledger" &&
    operation.parameters?.some(({ name }) => name === "last_cursor") === true,
);
const REQUIRED: Readonly<Record<string, string>> = {
  exportRecords: "kind=quotes&day=2026-02-01&",
  listCandles: "venue_id=venue_one&asset_id=0x1&interval=1h&",
  listQuotesOnRequest: "request_id=0190a0b0-0000-7000-8000-000000000001&",
};
/** A place in any list of records by time. */
const place = Buffer.from(
  JSON.stringify([1_795_168_800_000, "0190a0b0-0000-7000-8000-000000000001"]),
).toString("base64url");

let headers: Record<string, string>;
beforeAll(async () => {
  headers = bearer((await newUser()).token);
});

it("covers the lists", () => {
  expect(lists.length).toBeGreaterThan(12);
});

it.each(lists)("$path refuses the cursor of another list", async ({ path, operation }) => {
  const { operationId } = operation;
  const other = operationId === "listMatches" ? "listMyRequests" : "listMatches";
  for (const cursor of [`${other}-${place}`, place, `${operationId}-`, operationId]) {
    const target = `${path}?${REQUIRED[operationId] ?? ""}last_cursor=${cursor}`;
    const response = await send(target, { headers });
    expect(await codeOf(response.clone())).toBe("400 invalid_request");
    expect(await response.json()).toMatchObject({
      errors: [{ path: "query.last_cursor", message: "must be a next_cursor of this list" }],
    });
  }
});

it("a page without items repeats the cursor that it was given", async () => {
  const cursor = `listMyRequests-${place}`;
  const target = `/rfq/get-requests?limit=0&last_cursor=${cursor}`;
  expect(await (await send(target, { headers })).json()).toEqual({
    items: [],
    next_cursor: cursor,
  });
});
