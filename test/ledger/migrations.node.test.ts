import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, it } from "vitest";

function migrate(db: DatabaseSync, ...files: readonly string[]): void {
  for (const file of files)
    db.exec(readFileSync(join(import.meta.dirname, "../../migrations", file), "utf8"));
}

const INSERT =
  "INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
const NAMES: readonly (readonly [reason: string, step: string])[] = [
  ["deposit", "credit"],
  ["withdrawal", "queue"],
  ["reserve_rfq", "reserve"],
  ["reserve_trade", "reserve"],
  ["release", "end"],
  ["trade", "match"],
  ["fee", "match"],
];

it("a journal of names becomes one of codes: same numbers, balances and sequence, and guarded again", () => {
  const db = new DatabaseSync(":memory:");
  migrate(db, "0000_tables.sql", "0001_guards.sql");
  db.exec(
    `INSERT INTO accounts (account_id, owner, asset, kind, balance) VALUES (1, x'01', 'usdc', 'external', 0), (2, x'02', 'usdc', 'available', 0)`,
  );
  for (const [line, [reason, step]] of NAMES.entries())
    db.prepare(INSERT).run(1, 2, 10 + line, reason, new Uint8Array([line]), step, line, 100 + line);
  db.exec("UPDATE sqlite_sequence SET seq = 5000 WHERE name = 'transfers'");
  const columns =
    "transfer_id, from_account, to_account, amount, hex(ref) AS ref, line, at, from_balance, to_balance";
  const before = db.prepare(`SELECT ${columns} FROM transfers ORDER BY transfer_id`).all();

  migrate(db, "0002_journal_codes_and_amounts.sql");

  expect(db.prepare(`SELECT ${columns} FROM transfers ORDER BY transfer_id`).all()).toEqual(before);
  expect(
    db
      .prepare("SELECT reason, step FROM transfers ORDER BY transfer_id")
      .all()
      .map(({ reason, step }) => [reason, step]),
  ).toEqual([
    [1, 4],
    [2, 5],
    [3, 1],
    [4, 1],
    [5, 2],
    [6, 3],
    [7, 3],
  ]);
  db.prepare(INSERT).run(2, 1, 5, 2, new Uint8Array([99]), 2, 0, 200);
  expect(db.prepare("SELECT max(transfer_id) AS id FROM transfers").get()).toEqual({ id: 5001 });
  expect(db.prepare("SELECT balance FROM accounts WHERE account_id = 2").get()).toEqual({
    balance: 86,
  });
  for (const refused of [
    "UPDATE accounts SET balance = 0 WHERE account_id = 2",
    "UPDATE transfers SET amount = 1 WHERE transfer_id = 1",
    "DELETE FROM transfers WHERE transfer_id = 1",
    "INSERT OR REPLACE INTO transfers SELECT * FROM transfers WHERE transfer_id = 1",
    "INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at) VALUES (2, 1, 87, 2, x'07', 2, 0, 300)",
  ])
    expect(() => db.exec(refused), refused).toThrow();
  const guards =
    "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN ('transfers', 'accounts') ORDER BY name";
  const fresh = new DatabaseSync(":memory:");
  migrate(fresh, "0000_tables.sql", "0001_guards.sql");
  expect(db.prepare(guards).all()).toEqual(fresh.prepare(guards).all());
});
