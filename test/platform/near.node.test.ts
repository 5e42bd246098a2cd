/** Objects never move, so every one of them is asked for at the location of the database. */
import { globSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { near } from "../../src/platform/near.ts";
import { testSettings } from "../support/settings.ts";

/** The options with which an object is asked for under this setting. */
function optionsOf(BOOK_LOCATION: string, JURISDICTION = ""): unknown {
  const objects = (of: string) => ({
    getByName: (_name: string, options?: object) => ({ ...options, ...(of !== "" && { of }) }),
  });
  const all = { ...objects(""), jurisdiction: objects };
  return near({ ...testSettings(), BOOK_LOCATION, JURISDICTION }, all, "any");
}

it("asks for objects at the location of the setting", () => {
  expect(optionsOf("")).toEqual({});
  expect(optionsOf("weur")).toEqual({ locationHint: "weur" });
  expect(optionsOf("weur", "eu")).toEqual({ locationHint: "weur", of: "eu" });
});

it("rejects a location that D1 does not have", () => {
  expect(() => optionsOf("me")).toThrow("BOOK_LOCATION");
});

it("is the only code that opens objects", () => {
  const opening = globSync("src/**/*.ts").filter((file) =>
    /\.(?:getByName|idFromName|newUniqueId)\(/.test(readFileSync(file, "utf8")),
  );
  expect(opening).toEqual(["src/platform/near.ts"]);
});
