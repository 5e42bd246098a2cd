import { env } from "cloudflare:workers";
import { and, desc, eq, gt, inArray, max, sql as fragmentOf } from "drizzle-orm";
import { alias, integer, sqliteTable, text as textColumn, unionAll } from "drizzle-orm/sqlite-core";
import { beforeAll, describe, expect, it } from "vitest";
import { amount as amountColumn, hex } from "../../src/platform/columns.ts";
import { requests } from "../../src/rfq/tables.ts";
import { NOW } from "../../src/platform/commit.ts";
import { fields, fragment, read } from "../../src/platform/read.ts";
import { all, atom, blob, expr, prepare, sql, uuid } from "../../src/platform/sql.ts";

const chainCursors = sqliteTable("chain_cursors", {
  chain: textColumn("chain").primaryKey(),
  headNumber: integer("head_number").notNull(),
});
const sweepable = sqliteTable("sweepable", {
  chain: textColumn("chain").notNull(),
  asset: textColumn("asset").notNull(),
  address: hex("address").notNull(),
  amount: amountColumn("amount").notNull(),
});

/** The first integers that a double cannot represent, and the largest amount. */
const AMOUNTS = [2n ** 53n + 1n, 2n ** 62n - 1n, 2n ** 62n];
const CHAIN = `read-${crypto.randomUUID()}`;
const ADDRESS = `0x00${"ab".repeat(18)}ff` as const;
const REQUEST = crypto.randomUUID();
const REQUESTER = crypto.randomUUID();

beforeAll(async () => {
  for (const [index, amount] of AMOUNTS.entries())
    await all(
      env.DB,
      sql`INSERT INTO sweepable (chain, asset, address, amount, block_number)
        VALUES (${CHAIN}, ${`asset-${index}`}, ${blob(ADDRESS)}, ${amount}, ${index})`,
    );
  await all(
    env.DB,
    sql`INSERT INTO requests (request_id, requester_id, asset, amount, side, disclosed, status,
        opened_at, expires_at, opened_group)
      VALUES (${uuid(REQUEST)}, ${uuid(REQUESTER)}, 'venue_one:0x9', ${(2n ** 256n - 1n).toString()},
        'Ask', 1, 'expired', 1, 2, 0)`,
  );
});

describe("a selected amount", () => {
  const ours = eq(sweepable.chain, CHAIN);

  it("is exact up to 2^62 in a query of one table", async () => {
    const rows = await read(env.DB, ({ select }) =>
      select().from(sweepable).where(ours).orderBy(sweepable.amount),
    );
    expect(rows.map((row) => row.amount)).toEqual(AMOUNTS);
  });

  it("is exact in a join, under an alias and in a union", async () => {
    const s = alias(sweepable, "s");
    const joined = await read(env.DB, ({ select }) =>
      select({ amount: s.amount, head: chainCursors.headNumber })
        .from(s)
        .leftJoin(chainCursors, eq(chainCursors.chain, s.chain))
        .where(eq(s.chain, CHAIN))
        .orderBy(s.amount),
    );
    expect(joined.map((row) => row.amount)).toEqual(AMOUNTS);
    const twice = await read(env.DB, ({ select }) => {
      const half = () => select({ amount: sweepable.amount }).from(sweepable).where(ours);
      return unionAll(half(), half());
    });
    expect(new Set(twice.map((row) => row.amount))).toEqual(new Set(AMOUNTS));
  });

  it("is compared and sorted as a number", async () => {
    const rows = await read(env.DB, ({ select }) =>
      select({ amount: sweepable.amount })
        .from(sweepable)
        .where(and(ours, gt(sweepable.amount, 2n ** 53n + 1n)))
        .orderBy(desc(sweepable.amount)),
    );
    expect(rows.map((row) => row.amount)).toEqual([2n ** 62n, 2n ** 62n - 1n]);
  });

  it("is rejected unless the builder selected the column as text", async () => {
    const greatest = read(env.DB, ({ select }) =>
      select({ amount: max(sweepable.amount) })
        .from(sweepable)
        .where(ours),
    );
    await expect(greatest).rejects.toThrow("amount was not selected as text");
    // The builder does not name the cast, so an outer query cannot select it.
    const nested = read(env.DB, ({ select }) => {
      const inner = select().from(sweepable).where(ours).as("inner");
      return select({ amount: inner.amount }).from(inner);
    });
    await expect(nested).rejects.toThrow();
  });
});

describe("a selected row", () => {
  it("contains UUIDs, hex, flags and 256-bit amounts as TypeScript values", async () => {
    const [request] = await read(env.DB, ({ select }) =>
      select().from(requests).where(eq(requests.requestId, REQUEST)),
    );
    expect(request).toEqual({
      requestId: REQUEST,
      requesterId: REQUESTER,
      asset: "venue_one:0x9",
      amount: 2n ** 256n - 1n,
      usdcAmount: null,
      side: "Ask",
      disclosed: true,
      status: "expired",
      stuckAt: null,
      openedAt: 1,
      expiresAt: 2,
      openedGroup: 0,
      label: null,
      keyHash: null,
      termsHash: null,
      endedBy: null,
      endedGroup: null,
    });
    const addresses = await read(env.DB, ({ selectDistinct }) =>
      selectDistinct({ address: sweepable.address })
        .from(sweepable)
        .where(eq(sweepable.chain, CHAIN)),
    );
    expect(addresses).toEqual([{ address: ADDRESS }]);
  });
});

describe("a list of expressions", () => {
  it("is selected with its parameters and with conditions of the builder", async () => {
    const r = alias(requests, "r");
    const own = fields<{ request_id: string; owned: number; due: number }>({
      request_id: atom("hex(r.request_id)"),
      owned: expr`r.requester_id = ${uuid(REQUESTER)}`,
      due: expr`r.expires_at <= ${NOW}`,
    });
    const rows = await read(env.DB, ({ select }) =>
      select(own)
        .from(r)
        .where(and(eq(r.requestId, REQUEST), fragment(sql`r.opened_at = ${1}`))),
    );
    expect(rows).toEqual([
      { request_id: REQUEST.replaceAll("-", "").toUpperCase(), owned: 1, due: 1 },
    ]);
  });

  it("rejects a question mark that is not a parameter", () => {
    expect(() => fragment(sql`'why?'`)).toThrow("not a parameter");
  });
});

describe("a read that fails", () => {
  it("throws D1's error, without the values of the parameters", async () => {
    const failure = await read(env.DB, ({ select }) =>
      select()
        .from(requests)
        .where(fragmentOf`no_such_column = ${"a secret"}`),
    ).catch((error: unknown) => error);
    expect(String(failure)).toMatch(/D1_ERROR.*no_such_column/);
    expect(`${String(failure)} ${String((failure as Error).cause)}`).not.toContain("a secret");
  });

  it("is rejected if it binds more parameters than D1 allows", async () => {
    const ids = Array.from({ length: 101 }, () => crypto.randomUUID());
    const tooMany = read(env.DB, ({ select }) =>
      select().from(requests).where(inArray(requests.requestId, ids)),
    );
    await expect(tooMany).rejects.toThrow("a statement binds 101 parameters");
  });

  it("is rejected if a value is larger than D1 allows", () => {
    const withText = (text: string) => () => prepare(env.DB, sql`SELECT ${text}`);
    expect(withText("ä".repeat(950_000))).not.toThrow();
    expect(withText("ä".repeat(950_001))).toThrow("more than 1900000 bytes long");
  });
});
