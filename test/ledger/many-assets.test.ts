/** A page of get-ledger costs what it shows, however many assets its reader has ever received. */
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import type { LedgerFilter } from "../../src/ledger/filter.ts";
import { countEntries, NEWEST, readEntries } from "../../src/ledger/history.ts";
import { externalOwner, post } from "../../src/ledger/post.ts";
import { accountChecks } from "../../src/reconcile/check-balances.ts";
import { commitOrThrow, newGroup } from "../../src/platform/commit.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { CountingDatabase, rowsReadBy } from "../support/counting-database.ts";
import { newAsset } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";

const MANY = 3_000;
let few = "";
let many = "";

/** Credits one unit of each of `assets` assets `times` times. */
async function credit(assets: number, times: number): Promise<string> {
  const { userId } = await newUser();
  const first = BigInt(newAsset().asset_id);
  const source = sql`SELECT ${externalOwner("local")} AS from_owner, ${uuid(userId)} AS to_owner,
      j.value ->> 0 AS asset, 1 AS amount, unhex(j.value ->> 1) AS ref, 0 AS line
    FROM json_each(${JSON.stringify(
      Array.from({ length: assets * times }, (_, index) => [
        `venue_one:0x${(first + BigInt(index % assets)).toString(16)}`,
        Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("hex"),
      ]),
    )}) j`;
  const group = newGroup();
  await commitOrThrow(env.DB, group, [
    ...post(group, {
      reason: "deposit",
      step: "credit",
      from: "external",
      to: "available",
      source,
    }),
  ]);
  return userId;
}

beforeAll(async () => {
  few = await credit(5, 600);
  many = await credit(MANY, 1);
});

async function rowsRead(userId: string, filter: LedgerFilter, before = NEWEST): Promise<number> {
  const counting = new CountingDatabase();
  const { rows } = await readEntries(counting.db, userId, filter, { before, limit: 50 });
  expect(rows).toHaveLength(50);
  return counting.rowsRead;
}

it.each<[name: string, filter: LedgerFilter]>([
  ["of everything", {}],
  ["of one sub-account", { account: "available" }],
  ["of credits", { direction: "credit" }],
  ["of one reason", { reasons: ["deposit"] }],
  ["of a period", { from: 0, to: 4_000_000_000_000 }],
  ["of an amount that many entries have", { minAmount: 1n, maxAmount: 1n }],
])("a page %s reads as many rows of 3 000 assets as of 5", async (_, filter) => {
  expect(await rowsRead(many, filter)).toBeLessThanOrEqual(1.5 * (await rowsRead(few, filter)));
});

it("a later page reads no more than the first", async () => {
  const { rows } = await readEntries(env.DB, many, {}, { before: NEWEST, limit: 2_000 });
  const later = await rowsRead(many, {}, BigInt(rows.at(-1)?.entry_id ?? 0));
  expect(later).toBeLessThanOrEqual(1.5 * (await rowsRead(many, {})));
});

it("all assets of an owner count as one sub-account", async () => {
  const numbers = await all<{ kind: string; numbers: number }>(
    env.DB,
    sql`SELECT kind, count(DISTINCT sub_account) AS numbers FROM accounts
      WHERE owner = ${uuid(many)} GROUP BY kind ORDER BY kind`,
  );
  expect(numbers).toEqual([
    { kind: "available", numbers: 1 },
    { kind: "pending", numbers: 1 },
  ]);
  expect(await countEntries(env.DB, many, {}, { before: NEWEST, most: 10_000 })).toBe(MANY);
});

it("the check of an account reads as many rows after 500 trades as after 5", async () => {
  const rowsAfter = async (trades: number) => {
    const seller = await newUser({ usdc: BigInt(trades) });
    const buyer = await newUser();
    const group = newGroup();
    const source = (from: string, to: string) => sql`SELECT ${uuid(from)} AS from_owner,
      ${uuid(to)} AS to_owner, 'usdc' AS asset, 1 AS amount, randomblob(16) AS ref, 0 AS line
      FROM json_each(${JSON.stringify(Array.from({ length: trades }, () => 0))})`;
    const reserved = source(seller.userId, seller.userId);
    const traded = source(seller.userId, buyer.userId);
    await commitOrThrow(env.DB, group, [
      ...post(group, {
        reason: "reserve_rfq",
        step: "reserve",
        from: "available",
        to: "pending",
        source: reserved,
      }),
      ...post(group, {
        reason: "trade",
        step: "end",
        from: "pending",
        to: "available",
        source: traded,
      }),
    ]);
    const [chunk] = await all<{ after: number; upTo: number }>(
      env.DB,
      sql`SELECT min(account_id) - 1 AS after, max(account_id) AS upTo FROM accounts
        WHERE owner = ${uuid(seller.userId)}`,
    );
    return rowsReadBy(async (db) => {
      for (const check of Object.values(accountChecks(db)))
        await check(chunk ?? { after: 0, upTo: 0 });
    });
  };
  expect(await rowsAfter(500)).toBeLessThanOrEqual(1.5 * (await rowsAfter(5)));
});
