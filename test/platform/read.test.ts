import { env } from "cloudflare:workers";
import { eq, inArray, sql as fragmentOf } from "drizzle-orm";
import { integer, sqliteTable, text as textColumn } from "drizzle-orm/sqlite-core";
import { beforeAll, describe, expect, it } from "vitest";
import { hex, uuid as uuidColumn } from "../../src/platform/columns.ts";
import { read } from "../../src/platform/read.ts";
import { all, blob, prepare, sql, uuid } from "../../src/platform/sql.ts";

const requests = sqliteTable("requests", {
  requestId: uuidColumn("request_id").primaryKey(),
  disclosed: integer("disclosed", { mode: "boolean" }).notNull(),
  endedBy: uuidColumn("ended_by"),
});
const sweepable = sqliteTable("sweepable", {
  chain: textColumn("chain").notNull(),
  address: hex("address").notNull(),
});

const CHAIN = `read-${crypto.randomUUID()}`;
const ADDRESS = `0x00${"ab".repeat(18)}ff` as const;
const REQUEST = crypto.randomUUID();

beforeAll(async () => {
  for (const asset of ["one", "two"])
    await all(
      env.DB,
      sql`INSERT INTO sweepable (chain, asset, address, amount, block_number)
        VALUES (${CHAIN}, ${asset}, ${blob(ADDRESS)}, 1, 1)`,
    );
  await all(
    env.DB,
    sql`INSERT INTO requests (request_id, requester_id, asset, amount, side, disclosed, status,
        opened_at, expires_at, opened_group)
      VALUES (${uuid(REQUEST)}, ${uuid(crypto.randomUUID())}, 'venue_one:0x9', '1', 'Ask', 1,
        'expired', 1, 2, 0)`,
  );
});

describe("a selected row", () => {
  it("contains UUIDs, hex and flags as TypeScript values", async () => {
    const [request] = await read(env.DB, ({ select }) =>
      select().from(requests).where(eq(requests.requestId, REQUEST)),
    );
    expect(request).toEqual({ requestId: REQUEST, disclosed: true, endedBy: null });
    const addresses = await read(env.DB, ({ select }) =>
      select({ address: sweepable.address }).from(sweepable).where(eq(sweepable.chain, CHAIN)),
    );
    expect(addresses[0]).toEqual({ address: ADDRESS });
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
