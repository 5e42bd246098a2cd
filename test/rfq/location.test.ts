import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { bookObject } from "../../src/streams/notify.ts";
import { newAsset } from "../support/ledger.ts";

/** The options with which a book's object is asked for under this setting. */
function optionsOf(BOOK_LOCATION: string): unknown {
  let asked: unknown;
  const RFQ_BOOK = new Proxy(env.RFQ_BOOK, {
    get: (target) => (name: string, options: object) => {
      asked = options;
      return target.getByName(name, options);
    },
  });
  bookObject({ ...env, BOOK_LOCATION, RFQ_BOOK } as Env, newAsset().key);
  return asked;
}

it("asks for books at the location of the setting", () => {
  expect(optionsOf("")).toEqual({});
  expect(optionsOf("weur")).toEqual({ locationHint: "weur" });
});

it("rejects a location that D1 does not have", () => {
  expect(() => optionsOf("me")).toThrow("BOOK_LOCATION");
});
