/** Changes between signing and storing, which only the guard of the payer's batch can see. */
import { env } from "cloudflare:workers";
import type { Hex } from "viem";
import { expect, it } from "vitest";
import { all, blob, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { randomHex } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";
import { queuedWithdrawal } from "./support/drive.ts";
import { someone } from "./support/stage.ts";
import { payerAccount } from "./support/theft.ts";

type Withdrawal = Awaited<ReturnType<typeof queuedWithdrawal>>;

/** The points that the payer reaches if this happens once it has signed the payment. */
async function reached(withdrawal: Withdrawal, changes: readonly Sql[]): Promise<string[]> {
  const points: string[] = [];
  const payer = await withdrawal.stage.payer({
    failpoint: async (at) => {
      points.push(at);
      if (at === "signed") for (const change of changes) await all(env.DB, change);
    },
  });
  await payer.round();
  return points;
}

type Other = Readonly<
  Partial<{ id: string; chain: string; sender: Hex; to: Hex; nonce: number; batch: number }>
>;

function transaction({ stage }: Withdrawal, other: Other, status = "done"): Sql {
  const { id = uuidv7(), chain = stage.chain.chain, to = stage.vault, nonce = 9 } = other;
  const sender = other.sender ?? payerAccount(stage).address;
  return sql`INSERT INTO chain_transactions (transaction_id, chain, sender, nonce, kind, batch_no,
      to_address, data, gas_limit, status, made_group, made_at)
    VALUES (${uuid(id)}, ${chain}, ${blob(sender)}, ${nonce}, 'pay', ${other.batch ?? null},
      ${blob(to)}, x'00', 1, ${status}, 0, 0)`;
}

function member(
  of: Withdrawal,
  purpose: string,
  ended: number | null = null,
  withdrawalId = of.id,
): Sql[] {
  const id = uuidv7();
  return [
    transaction(of, { id, chain: "elsewhere", sender: someone() }),
    sql`INSERT INTO batch_members (transaction_id, withdrawal_id, purpose, ended_group)
      VALUES (${uuid(id)}, ${uuid(withdrawalId)}, ${purpose}, ${ended})`,
  ];
}

function command({ stage }: Withdrawal, kind: string, id: string, done: number | null = null): Sql {
  return sql`INSERT INTO chain_commands (chain, kind, withdrawal_id, actor, at, done_group)
    VALUES (${stage.chain.chain}, ${kind}, ${uuid(id)}, 'test', 0, ${done})`;
}

it.each<[what: string, changes: (of: Withdrawal) => Sql[]]>([
  [
    "another payer has taken the lease",
    ({ stage: { chain } }) => [
      sql`UPDATE payer_leases SET token = randomblob(16) WHERE chain = ${chain.chain}`,
    ],
  ],
  [
    "the payer is halted",
    ({ stage: { chain } }) => [
      sql`UPDATE payer_leases SET halted_at = 1 WHERE chain = ${chain.chain}`,
    ],
  ],
  [
    "the chain is halted",
    ({ stage: { chain } }) => [
      sql`UPDATE chain_cursors SET halted_at = 1 WHERE chain = ${chain.chain}`,
    ],
  ],
  [
    "withdrawals are paused",
    () => [
      sql`INSERT INTO kill_switches (name, reason, since) VALUES ('withdrawals_paused', 'test', 0)`,
    ],
  ],
  [
    "its user is frozen",
    ({ user }) => [sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(user.userId)}`],
  ],
  ["it is to fail", (of) => [command(of, "fail", of.id)]],
  ["another transaction pays it", (of) => member(of, "pay")],
  ["another transaction voids it", (of) => member(of, "void")],
  [
    "its id was paid on other terms",
    ({ stage, paymentId }) => [
      sql`INSERT INTO vault_events (chain, transaction_hash, ordinal, kind, payment_id, vault,
          batch_no, asset, amount, to_address, block_number, block_hash, recorded_group)
        VALUES (${stage.chain.chain}, randomblob(32), 0, 'Paid', ${blob(paymentId)},
          ${blob(stage.vault)}, 1, 'usdc', '1', randomblob(20), 1, randomblob(32), 0)`,
    ],
  ],
  ["a later nonce was used", (of) => [transaction(of, {})]],
  [
    "a later batch number was used",
    (of) => [transaction(of, { sender: someone(), batch: 9 }, "open")],
  ],
])("a payment is not stored if meanwhile %s", async (_, changes) => {
  const of = await queuedWithdrawal();
  try {
    expect(await reached(of, changes(of))).toEqual(["signed"]);
  } finally {
    await all(env.DB, sql`DELETE FROM kill_switches WHERE name = 'withdrawals_paused'`);
  }
  expect(await of.stage.withdrawal(of.id)).toMatchObject({ status: "queued" });
});

it("a payment is stored whatever happens to others, or has happened to it", async () => {
  const of = await queuedWithdrawal();
  const { userId } = await newUser();
  const sender = someone();
  const chain = `other-${randomHex(4)}`;
  const changes = [
    sql`INSERT INTO payer_leases (chain, token, taken_at, halted_at)
      VALUES (${chain}, randomblob(16), 0, 1)`,
    sql`UPDATE users SET frozen_at = 1 WHERE user_id = ${uuid(userId)}`,
    command(of, "fail", uuidv7()),
    command(of, "fail", of.id, 1),
    command(of, "retry", of.id),
    ...member(of, "pay", null, uuidv7()),
    ...member(of, "pay", 1),
    transaction(of, { nonce: -1 }),
    transaction(of, { chain }),
    transaction(of, { sender, nonce: 9 }),
    transaction(of, { sender, nonce: 10, to: someone(), batch: 9 }),
    transaction(of, { sender, nonce: 11, chain, batch: 9 }),
    transaction(of, { sender, nonce: 12, batch: 9 }, "unused"),
  ];
  expect(await reached(of, changes)).toEqual(["signed", "stored", "sent"]);
});
