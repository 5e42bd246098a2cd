import { expect, it } from "vitest";
import { VENUES as clientVenues } from "../../packages/client/src/index.ts";
import { VENUES } from "../../src/platform/venues.ts";

it("the client and the service know the same venues", () => {
  expect(clientVenues).toEqual(VENUES);
});
