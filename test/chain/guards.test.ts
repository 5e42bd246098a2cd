/**
 * Runs SQL directly against the guards of the chain's tables. Signed transactions cannot be lost or
 * changed, and a withdrawal cannot be in two live payments.
 */
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import { all, blob, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { insertWithdrawal, randomHex as hex } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";

const db = env.DB;
const VAULT = hex(20);

type Kept = {
  chain: string;
  transaction: string;
  ended: string;
  withdrawal: string;
  other: string;
  hash: string;
  payment: string;
  sender: string;
};

/** Two withdrawals: one in an open payment with one attempt, one in a payment that has ended. */
async function records(): Promise<Kept> {
  const { userId } = await newUser();
  const chain = `guards-${uuidv7()}`;
  const withdrawal = await insertWithdrawal(userId, { chain });
  const other = await insertWithdrawal(userId, { chain });
  const of = {
    chain,
    sender: hex(20),
    hash: hex(32),
    payment: withdrawal.paymentId,
    transaction: uuidv7(),
    ended: uuidv7(),
    withdrawal: withdrawal.withdrawalId,
    other: other.withdrawalId,
  };
  const transaction = (
    id: string,
    nonce: number,
    status: string,
  ) => sql`INSERT INTO chain_transactions (transaction_id, chain, sender, nonce, kind, batch_no,
      to_address, data, gas_limit, status, made_group, made_at)
    VALUES (${uuid(id)}, ${chain}, ${blob(of.sender)}, ${nonce}, 'pay', ${nonce + 1},
      ${blob(VAULT)}, ${blob("0xabcd")}, 21000, ${status}, -1, 0)`;
  await all(db, transaction(of.ended, 0, "done"));
  await all(db, transaction(of.transaction, 1, "open"));
  await all(db, attempt(of.transaction, 0, of.hash));
  await all(db, member(of.transaction, of.withdrawal));
  await all(
    db,
    sql`INSERT INTO batch_members (transaction_id, withdrawal_id, purpose, ended_group, outcome)
    VALUES (${uuid(of.ended)}, ${uuid(of.other)}, 'pay', -1, 'Skipped')`,
  );
  await all(db, event(of, { id: of.payment }));
  return of;
}

function attempt(transaction: string, number: number, hash: string, clause = "INSERT"): Sql {
  return sql`${raw(clause)} INTO transaction_attempts (transaction_id, attempt, hash, signed,
    max_fee, priority_fee, signed_group, signed_at, head_number)
    VALUES (${uuid(transaction)}, ${number}, ${blob(hash)}, ${blob(hex(8))}, 7, 1, -1, 0, 0)`;
}

function member(transaction: string, withdrawal: string, clause = "INSERT"): Sql {
  return sql`${raw(clause)} INTO batch_members (transaction_id, withdrawal_id, purpose)
    VALUES (${uuid(transaction)}, ${uuid(withdrawal)}, 'pay')`;
}

function event(
  { chain, hash }: Kept,
  { id, clause = "INSERT" }: { id: string; clause?: string },
): Sql {
  return sql`${raw(clause)} INTO vault_events (chain, transaction_hash, ordinal, kind, payment_id, vault,
    batch_no, amount, to_address, block_number, block_hash, recorded_group)
    VALUES (${chain}, ${blob(hash)}, 0, 'Paid', ${blob(id)}, ${blob(VAULT)}, 2, '5',
      ${blob(hex(20))}, 9, ${blob(hex(32))}, -1)`;
}

function transactionAgain(
  of: Kept,
  clause: string,
  change: { id?: string; nonce?: number; batch?: number },
): Sql {
  return sql`${raw(clause)} INTO chain_transactions (transaction_id, chain, sender, nonce, kind,
    batch_no, to_address, data, gas_limit, status, made_group, made_at)
    VALUES (${uuid(change.id ?? uuidv7())}, ${of.chain}, ${blob(of.sender)},
      ${change.nonce ?? 77}, 'pay', ${change.batch ?? 77}, ${blob(VAULT)}, ${blob("0x")}, 1,
      'open', -1, 0)`;
}

function everything({ chain, withdrawal, other, transaction, ended }: Kept): Promise<unknown> {
  const ours = sql`(${uuid(transaction)}, ${uuid(ended)})`;
  return Promise.all([
    all(
      db,
      sql`SELECT hex(transaction_id) AS t, nonce, batch_no, hex(data) AS data,
        hex(to_address) AS "to", kind, status, gas_limit FROM chain_transactions WHERE chain = ${chain}
        ORDER BY nonce`,
    ),
    all(
      db,
      sql`SELECT hex(transaction_id) AS t, attempt, hex(hash) AS hash, hex(signed) AS signed,
        max_fee FROM transaction_attempts WHERE transaction_id IN ${ours} ORDER BY t, attempt`,
    ),
    all(
      db,
      sql`SELECT hex(transaction_id) AS t, hex(withdrawal_id) AS w, purpose, ended_group, outcome
        FROM batch_members WHERE transaction_id IN ${ours} ORDER BY t, w`,
    ),
    all(
      db,
      sql`SELECT hex(transaction_hash) AS h, ordinal, kind, hex(payment_id) AS id, amount,
        hex(to_address) AS "to" FROM vault_events WHERE chain = ${chain}`,
    ),
    all(
      db,
      sql`SELECT hex(withdrawal_id) AS w, hex(payment_id) AS p, hex(user_id) AS u, asset, amount,
        hex(to_address) AS "to", status FROM withdrawals
      WHERE withdrawal_id IN (${uuid(withdrawal)}, ${uuid(other)}) ORDER BY w`,
    ),
  ]);
}

const CLAUSES = ["INSERT", "INSERT OR IGNORE", "INSERT OR REPLACE"] as const;

/** Statements that try to lose, change or duplicate a record. */
function attacks(of: Kept): Sql[] {
  const t = uuid(of.transaction);
  return [
    ...CLAUSES.flatMap((clause) => [
      attempt(of.transaction, 0, hex(32), clause),
      attempt(of.ended, 5, of.hash, clause),
      transactionAgain(of, clause, { id: of.transaction }),
      transactionAgain(of, clause, { nonce: 1 }),
      transactionAgain(of, clause, { batch: 2 }),
      member(of.transaction, of.withdrawal, clause),
      // A second live payment of the same withdrawal.
      member(of.ended, of.withdrawal, clause),
      event(of, { id: hex(32), clause }),
    ]),
    ...["transaction_attempts", "chain_transactions", "batch_members"].map(
      (table) => sql`DELETE FROM ${raw(table)} WHERE transaction_id = ${t}`,
    ),
    sql`DELETE FROM vault_events WHERE chain = ${of.chain}`,
    sql`DELETE FROM withdrawals WHERE withdrawal_id = ${uuid(of.withdrawal)}`,
    sql`UPDATE transaction_attempts SET signed = x'00' WHERE transaction_id = ${t}`,
    sql`UPDATE transaction_attempts SET max_fee = 8 WHERE transaction_id = ${t}`,
    sql`UPDATE chain_transactions SET nonce = 9 WHERE transaction_id = ${t}`,
    sql`UPDATE chain_transactions SET data = x'00' WHERE transaction_id = ${t}`,
    sql`UPDATE chain_transactions SET batch_no = NULL WHERE transaction_id = ${t}`,
    sql`UPDATE chain_transactions SET kind = 'cancel' WHERE transaction_id = ${t}`,
    sql`UPDATE chain_transactions SET kind = 'cancel', status = 'open', ended_group = NULL,
      reopened_group = 1 WHERE transaction_id = ${uuid(of.ended)}`,
    sql`UPDATE OR REPLACE chain_transactions SET nonce = 0, batch_no = 1
      WHERE transaction_id = ${t}`,
    sql`UPDATE chain_transactions SET status = 'open' WHERE transaction_id = ${uuid(of.ended)}`,
    sql`UPDATE batch_members SET ended_group = NULL, outcome = NULL
      WHERE transaction_id = ${uuid(of.ended)}`,
    sql`UPDATE batch_members SET withdrawal_id = ${uuid(of.other)} WHERE transaction_id = ${t}`,
    sql`UPDATE OR REPLACE batch_members SET transaction_id = ${uuid(of.ended)},
      withdrawal_id = ${uuid(of.other)} WHERE transaction_id = ${t}`,
    sql`UPDATE vault_events SET amount = '6' WHERE chain = ${of.chain}`,
    sql`UPDATE vault_events SET payment_id = ${blob(hex(32))} WHERE chain = ${of.chain}`,
    sql`UPDATE withdrawals SET amount = 4 WHERE withdrawal_id = ${uuid(of.withdrawal)}`,
    sql`UPDATE withdrawals SET to_address = ${blob(hex(20))}
      WHERE withdrawal_id = ${uuid(of.withdrawal)}`,
    sql`UPDATE OR REPLACE withdrawals SET payment_id = ${blob(of.payment)}
      WHERE withdrawal_id = ${uuid(of.other)}`,
  ];
}

it("the schema rejects every loss, change or duplicate of chain records", async () => {
  const of = await records();
  const before = await everything(of);
  for (const attack of attacks(of)) {
    await all(db, attack).catch(() => undefined);
    expect(await everything(of), attack.text).toEqual(before);
  }
});

it("the schema allows the service's own status changes", async () => {
  const of = await records();
  await all(
    db,
    sql`UPDATE withdrawals SET status = 'submitted', transaction_hash = ${blob(of.hash)}
      WHERE withdrawal_id = ${uuid(of.withdrawal)}`,
  );
  await all(db, attempt(of.transaction, 1, hex(32)));
  await all(
    db,
    sql`UPDATE batch_members SET ended_group = -1, outcome = 'returned'
      WHERE transaction_id = ${uuid(of.transaction)}`,
  );
  await all(
    db,
    sql`UPDATE chain_transactions SET status = 'unused', ended_group = -1
      WHERE transaction_id = ${uuid(of.transaction)}`,
  );
  // The next transaction takes a batch number that was not used.
  await all(db, transactionAgain(of, "INSERT", { nonce: 2, batch: 2 }));
  await expect(
    all(
      db,
      sql`UPDATE batch_members SET outcome = 'Paid' WHERE transaction_id = ${uuid(of.transaction)}`,
    ),
  ).rejects.toThrow();
  await expect(
    all(
      db,
      sql`UPDATE chain_transactions SET status = 'open'
        WHERE transaction_id = ${uuid(of.transaction)}`,
    ),
  ).rejects.toThrow();
});
