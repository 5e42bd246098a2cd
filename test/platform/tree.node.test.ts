/** What holds of the files of src as a whole. */
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { expect, it } from "vitest";

const FILES = globSync("src/**/*.ts").toSorted();
/** These name their folder's part of one kind. */
const IN_EVERY_ROOM = ["routes.ts", "schemas.ts", "tables.ts"];

it("gives each file a name of its own", () => {
  const names = FILES.map((file) => basename(file));
  const twice = names.filter((name, index) => names.indexOf(name) !== index);
  expect(new Set(twice)).toEqual(new Set(IN_EVERY_ROOM));
});

it.each([
  ["inserts into the journal", /INSERT( OR \w+)? INTO (transfers|accounts)\b/, ["ledger/post.ts"]],
  ["changes the journal", /UPDATE( OR \w+)? (transfers|accounts)\b/, []],
  ["deletes sealed transfers", /DELETE FROM (transfers|accounts)\b/, ["archive/release.ts"]],
])("names the only file that %s", (_, statement, allowed) => {
  const found = FILES.filter((file) => statement.test(readFileSync(file, "utf8")));
  expect(found).toEqual(allowed.map((file) => `src/${file}`));
});
