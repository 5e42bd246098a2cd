import { expect, it } from "vitest";
import { balanceQuery, balancesQuery } from "../../src/ledger/balance.ts";
import {
  countedEntries,
  entriesOfRef,
  firstTransferSince,
  mergedEntries,
  NEWEST,
} from "../../src/ledger/entry-queries.ts";
import { assetFits, type LedgerFilter } from "../../src/ledger/filter.ts";
import type { Sql } from "../../src/platform/sql.ts";
import { printSql } from "../../scripts/migrations/print-sql.ts";
import { LOCAL_VENUES } from "../../scripts/stack/local-venues.ts";

const USER = "0196f0c2-0000-7000-8000-000000000001";
const RECORD = "0196f0c2-0000-7000-8000-000000000002";
const PAGE = { before: NEWEST, limit: 51, examined: 1_000 };
const SIZED: LedgerFilter = { minAmount: 5n, maxAmount: 700n };

const page = (filter: LedgerFilter) => mergedEntries(USER, filter, PAGE);

const READS: readonly (readonly [string, Sql])[] = [
  ["A page", page({})],
  ["A page of one sub-account", page({ account: "pending" })],
  ["A page of debits", page({ direction: "debit" })],
  ["A page of some reasons", page({ reasons: ["fee", "trade"] })],
  ["A page of USDC", page({ usdc: true })],
  ["Its condition on assets: every token", assetFits({ usdc: false })],
  ["Its condition on assets: a venue", assetFits({ venue: "venue_one" })],
  [
    "Its condition on assets: an asset id on any venue",
    assetFits({ assetId: "0x1", venues: LOCAL_VENUES }),
  ],
  ["Its condition on assets: one token", assetFits({ venue: "venue_one", assetId: "0x1" })],
  ["A page of a period", page({ from: 1_700_000_000_000, to: 1_700_000_999_999 })],
  ["The entries of a record", entriesOfRef(USER, { refId: RECORD }, PAGE)],
  ["The entries of a transaction", entriesOfRef(USER, { refId: `0x${"ab".repeat(32)}` }, PAGE)],
  ["A page of amounts", page(SIZED)],
  ["The first transfer since an instant", firstTransferSince(1_700_000_000_000)],
  ["The length of a statement", countedEntries(USER, {}, { before: NEWEST, most: 1_000_001 })],
  [
    "The length of a statement by amount",
    countedEntries(USER, SIZED, { before: NEWEST, most: 1_000_001 }),
  ],
  ["The balance of an asset", balanceQuery(USER, "usdc")],
  ["A page of balances", balancesQuery(USER, { after: "", limit: 51 })],
];

const HEADER = `-- The SQL that each ledger read sends to D1, with its parameters. Written by
-- queries.node.test.ts. To accept a change: npm run test -- --project node test/ledger -u
`;

it("every ledger read compiles to the reviewed SQL", async () => {
  const names = new Map<string, string>();
  const printed = READS.map(([name, read]) => {
    const same = names.get(read.text);
    if (same !== undefined)
      return `-- ${name}: the statement of "${same}"\n${printSql({ ...read, text: "" })}`;
    names.set(read.text, name);
    return `-- ${name}\n${printSql(read)}`;
  });
  await expect([HEADER, ...printed].join("\n")).toMatchFileSnapshot("queries.snapshot.sql");
});
