/** What a small deposit costs, because anyone can cause any number of them for some gas. */
import { randomBytes } from "node:crypto";
import { type Address, getAddress, type Hex } from "viem";
import { expect, it } from "vitest";
import { creditConfirmed } from "../../src/custody/watcher/credit-deposit.ts";
import { toSeenTransfer } from "../../src/custody/watcher/detect-deposits.ts";
import { recordSmallDeposits } from "../../src/custody/watcher/small-deposits.ts";
import { newGroup } from "../../src/platform/commit.ts";
import { config } from "../../src/platform/config.ts";
import { type Sql, sql, TRUE, uuid } from "../../src/platform/sql.ts";
import { migratedDatabase } from "../../scripts/migrations/files.ts";
import { testSettings } from "../support/settings.ts";

const COUNT = 6_000;
const MOST_BYTES = 300;

// Safe cast: random bytes as hexadecimal text.
const hex = (bytes: number) => `0x${randomBytes(bytes).toString("hex")}` as Hex;
const newAddress = (): Address => getAddress(hex(20));

it(`takes less than ${MOST_BYTES} bytes with its indexes, for any token`, () => {
  const base = config(testSettings());
  const [chain, venue] = [base.CHAINS[0], base.VENUES[0]];
  if (chain === undefined || venue === undefined) throw new Error("the settings have no chain");
  const settings = {
    ...base,
    CHAINS: [{ ...chain, chain: "polygon" }],
    VENUES: [{ ...venue, chain: "polygon", min_deposit: 1_000_000 }],
  };
  const database = migratedDatabase();
  const run = ({ text, params }: Sql) => database.prepare(text).run(...params);
  const userIds = ["01", "02", "03"].map((end) => `0196f0c2-0000-7000-8000-0000000000${end}`);
  const holders = userIds.flatMap((userId) =>
    Array.from({ length: 50 }, () => [userId, newAddress()] as const),
  );
  for (const [nonce, [userId, address]] of holders.entries())
    run(sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES ('polygon', unhex(${address.slice(2)}), ${uuid(userId)}, ${nonce}, x'00', 0)`);
  const before = bytesInUse();
  for (let done = 0; done < COUNT; done += 500) {
    const group = newGroup();
    const at = 1_764_551_353_797 + done;
    run(sql`INSERT INTO commit_groups (group_id, at, voided) VALUES (${uuid(group.id)}, ${at}, 0)`);
    const seen = Array.from({ length: 500 }, (_, index) =>
      toSeenTransfer(
        {
          token: getAddress(venue.outcome_tokens ?? ""),
          // Ids of real outcome tokens are hashes.
          tokenId: BigInt(hex(32)),
          from: newAddress(),
          to: holders[(done + index) % holders.length]?.[1] ?? newAddress(),
          amount: 999_999n,
          transactionHash: hex(32),
          ordinal: index,
          position: 0,
          blockNumber: 60_000_000 + done,
          blockHash: hex(32),
          logIndex: index,
        },
        "venue_one:0x1",
        { settings, chain: { ...chain, chain: "polygon" } },
      ),
    ).map((transfer) => ({ ...transfer, asset: `venue_one:${hex(32).replace(/^0x0+/, "0x")}` }));
    for (const statement of [
      ...recordSmallDeposits(group, { ...chain, chain: "polygon" }, seen, TRUE),
      ...creditConfirmed(group, settings, "polygon", TRUE),
    ])
      run(statement);
  }
  const { rows } = database.prepare("SELECT count(*) AS rows FROM small_deposits").get() ?? {};
  expect(rows).toBe(COUNT);
  expect((bytesInUse() - before) / COUNT).toBeLessThan(MOST_BYTES);

  function bytesInUse(): number {
    const read = (pragma: string) =>
      Number(Object.values(database.prepare(`PRAGMA ${pragma}`).get() ?? {})[0]);
    return (read("page_count") - read("freelist_count")) * read("page_size");
  }
});
