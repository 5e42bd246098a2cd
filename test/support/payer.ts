/** A payer of a test's own, for races with its batches. */
import { env } from "cloudflare:workers";
import { takeLease } from "../../src/custody/payer/payer-lease.ts";
import { storeTransaction } from "../../src/custody/payer/make-transaction.ts";
import { all, sql } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { settings } from "./http.ts";
import { newAddress, randomHex } from "./ledger.ts";

const db = env.DB;

/** A chain of the test's own, whose payer stores payments with its own statements. */
export async function newPayer() {
  const chain = `race-${uuidv7()}`;
  const token = uuidv7();
  const vault = newAddress() as `0x${string}`;
  await takeLease(db, chain, token);
  await all(
    db,
    sql`INSERT INTO chain_cursors (chain, confirmed_number, confirmed_hash, scanned_number,
        scanned_hash, head_number, moved_group, moved_at)
      VALUES (${chain}, 1, zeroblob(32), 1, zeroblob(32), 1, 0, 0)`,
  );
  const context = {
    db,
    settings: settings(),
    chain: { ...settings().CHAINS[0]!, chain },
    token,
    push: () => Promise.resolve(),
    saveRecords: () => Promise.resolve(),
  };
  const account = {
    address: newAddress() as `0x${string}`,
    sign: () =>
      Promise.resolve({
        hash: randomHex(32),
        raw: randomHex(40),
      }),
    verify: () => Promise.resolve(true),
  };
  let nonce = 0;
  const pay = (withdrawalId: string) => {
    nonce += 1;
    return storeTransaction(
      { ...context, account },
      {
        kind: "pay",
        call: { to: vault, data: "0x01", gasLimit: 1n },
        nonce,
        fees: { maxFee: 1n, priorityFee: 1n },
        headNumber: 1,
        batchNo: nonce,
        members: [withdrawalId],
      },
    );
  };
  return { chain, pay };
}
