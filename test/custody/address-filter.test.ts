import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { AddressFilter } from "../../src/custody/watcher/address-filter.ts";
import { depositAddressesAmong } from "../../src/custody/watcher/detect-deposits.ts";
import { all, prepare, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { CountingDatabase } from "../support/counting-database.ts";

const CHAIN = `chain-${uuidv7()}`;

async function insertAddresses(chain: string, count: number): Promise<string[]> {
  const rows = await all<{ address: string }>(
    env.DB,
    sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ${count})
      SELECT ${chain}, randomblob(20), randomblob(16), 0, randomblob(32), 1 FROM n
      RETURNING lower(hex(address)) AS address`,
  );
  return rows.map((row) => row.address);
}

const foreign = (count: number) =>
  Array.from({ length: count }, () =>
    (uuidv7() + uuidv7()).replaceAll("-", "").slice(-40).toLowerCase(),
  );

let ours: string[] = [];
beforeAll(async () => {
  ours = await insertAddresses(CHAIN, 12_000);
});

describe("the lookup of receivers", () => {
  it("reads rows by the number of receivers, not of deposit addresses", async () => {
    const receivers = [...foreign(99), ours[7] ?? ""];
    const { meta, results } = await prepare(env.DB, depositAddressesAmong(CHAIN, receivers)).run();
    expect(results).toMatchObject([{ address: ours[7] }]);
    expect(meta.rows_read).toBeLessThan(400);
  });

  it("reads rows by the number of receivers where the planner has statistics", async () => {
    await env.DB.exec("ANALYZE deposit_addresses");
    const { meta } = await prepare(env.DB, depositAddressesAmong(CHAIN, foreign(100))).run();
    expect(meta.rows_read).toBeLessThan(400);
    await env.DB.exec("DELETE FROM sqlite_stat1");
  });
});

describe("the address filter", () => {
  it("excludes no deposit address and almost all others", async () => {
    const filter = new AddressFilter();
    await filter.refresh(env.DB, CHAIN);
    expect(ours.every((address) => filter.mayContain(address))).toBe(true);
    expect(foreign(5_000).filter((address) => filter.mayContain(address)).length).toBeLessThan(10);
  });

  it("adds new addresses without reading the others again", async () => {
    const filter = new AddressFilter();
    await filter.refresh(env.DB, CHAIN);
    const added = await insertAddresses(CHAIN, 3);
    const counting = new CountingDatabase();
    await filter.refresh(counting.db, CHAIN);
    expect(added.every((address) => filter.mayContain(address))).toBe(true);
    expect(counting.rowsRead).toBeLessThan(10);
  });

  it("contains only the addresses of its chain", async () => {
    const [other = ""] = await insertAddresses(`chain-${uuidv7()}`, 1);
    const filter = new AddressFilter();
    await filter.refresh(env.DB, CHAIN);
    expect(filter.mayContain(other)).toBe(false);
  });

  it("is empty after clear and complete after the next refresh", async () => {
    const filter = new AddressFilter();
    await filter.refresh(env.DB, CHAIN);
    filter.clear();
    expect(filter.mayContain(ours[0] ?? "")).toBe(false);
    await filter.refresh(env.DB, CHAIN);
    expect(filter.mayContain(ours[0] ?? "")).toBe(true);
  });
});
