import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, it } from "vitest";
import { depositAddressesAmong } from "../../src/custody/watcher/detect-deposits.ts";
import { all, prepare, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";

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
