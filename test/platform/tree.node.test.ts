/** What holds of the files of src as a whole. */
import { globSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { expect, it } from "vitest";
import { PROBLEM_CODES } from "../../src/platform/problem.ts";

const FILES = globSync("src/**/*.ts").toSorted();
/** The tables of a history have the names of the journal's, in a storage of their own. */
const OF_DATABASE = FILES.filter((file) => file !== "src/archive/history-tables.ts");
/** These name their folder's part of one kind. */
const IN_EVERY_ROOM = ["routes.ts", "schemas.ts", "tables.ts"];

it("gives each file a name of its own", () => {
  const names = FILES.map((file) => basename(file));
  const twice = names.filter((name, index) => names.indexOf(name) !== index);
  expect(new Set(twice)).toEqual(new Set(IN_EVERY_ROOM));
});

/** Functions of operator commands are named by their verb, as their files are by their noun. */
const VERBS = ["close", "list", "reject", "resume", "show"];

it("exports each name from one file", () => {
  const files = new Map<string, Set<string>>();
  for (const file of FILES)
    for (const [, name = ""] of readFileSync(file, "utf8").matchAll(
      /^export (?:abstract )?(?:async )?(?:class|const|function\*?|let|type) (\w+)/gm,
    ))
      files.set(name, (files.get(name) ?? new Set()).add(file));
  const several = [...files].filter(([, places]) => places.size > 1);
  expect(several.map(([name]) => name).toSorted()).toEqual(VERBS);
});

it.each([
  ["inserts into the journal", /INSERT( OR \w+)? INTO (transfers|accounts)\b/, ["ledger/post.ts"]],
  ["changes the journal", /UPDATE( OR \w+)? (transfers|accounts)\b/, []],
  ["deletes sealed transfers", /DELETE FROM (transfers|accounts)\b/, ["archive/release.ts"]],
])("names the only file that %s", (_, statement, allowed) => {
  const found = OF_DATABASE.filter((file) => statement.test(readFileSync(file, "utf8")));
  expect(found).toEqual(allowed.map((file) => `src/${file}`));
});

/** What happens to the rows below is decided in each of these places. */
const SEVERAL_WRITERS: Readonly<Record<string, readonly string[]>> = {
  // A restore puts back what the database has lost.
  accepted_payments: ["custody/accept-payment", "custody/payer/restore-payments"],
  deposit_addresses: ["custody/deposit-address", "custody/watcher/restore-addresses"],
  users: ["auth/user", "custody/watcher/restore-addresses"],
  withdrawals: ["custody/payer/restore-payments", "custody/withdraw"],
  // The event that begins an epoch brings its own number.
  audit_events: ["audit/audit", "audit/epoch"],
  // Small deposits are detected in numbers and credited together.
  deposits: ["custody/watcher/detect-deposits", "custody/watcher/small-deposits"],
  // A halt by an operator, by the limit of storage, and by missing holdings.
  kill_switches: ["custody/operator-commands", "platform/storage", "reconcile/check-holdings"],
  checked_balances: ["reconcile/check-journal", "reconcile/scans"],
  ledger_checkpoints: [
    "reconcile/check-holdings",
    "reconcile/reconcile",
    "rfq/pairs/pay-holders",
    "rfq/pairs/read-results",
  ],
  sealed_owners: ["archive/check-owners", "archive/seal-row"],
};

it("inserts the rows of a table in one file", () => {
  const writers = new Map<string, Set<string>>();
  for (const file of OF_DATABASE)
    for (const [, table = ""] of readFileSync(file, "utf8").matchAll(
      /\b(?:INSERT|REPLACE)(?: OR \w+)? INTO (\w+)/g,
    ))
      writers.set(table, (writers.get(table) ?? new Set()).add(file.slice(4, -3)));
  const several = [...writers].filter(([, files]) => files.size > 1);
  const found = Object.fromEntries(several.map(([table, files]) => [table, [...files]]));
  expect(found).toEqual(SEVERAL_WRITERS);
});

it("raises each published code, beyond the lists of what a route may answer", () => {
  const LISTS = /\bproblems: \[[^\]]*\]|PROBLEMS\b[^=]*= \[[^\]]*\]/g;
  const raising = FILES.filter((file) => file !== "src/platform/problem.ts")
    .map((file) => readFileSync(file, "utf8").replaceAll(LISTS, ""))
    .join("\n");
  const never = PROBLEM_CODES.filter((code) => !raising.includes(`"${code}"`));
  expect(never).toEqual([]);
});
