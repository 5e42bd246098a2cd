/**
 * Peers of bench/ledger.ts: the same journal in PostgreSQL (pgbench) and in SQLite in the process.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { startPostgres } from "./postgres.ts";

export type Rate = {
  readonly who: string;
  readonly clients: number;
  readonly hot: boolean;
  readonly perSecond: number;
};
export type Times = { readonly p50: number; readonly p99: number };

/**
 * Milliseconds of each call. The calls alternate, so that other load on the machine affects all of
 * them. Warm-up is a tenth of `runs`, not counted.
 */
export async function measureInTurn(
  runs: number,
  calls: readonly (() => Promise<unknown>)[],
): Promise<Times[]> {
  const times: number[][] = calls.map(() => []);
  for (let run = -runs / 10; run < runs; run++) {
    for (const [i, call] of calls.entries()) {
      const start = performance.now();
      await call();
      if (run >= 0) times[i]?.push(performance.now() - start);
    }
  }
  return times.map((own) => {
    own.sort((a, b) => a - b);
    const at = (share: number) =>
      own[Math.min(own.length - 1, Math.floor(own.length * share))] ?? 0;
    return { p50: at(0.5), p99: at(0.99) };
  });
}

const USERS = 1_000;

/** node:sqlite, like better-sqlite3, has no server and no network and runs in one thread. */
export function runSqlite(seconds: number, migrations: readonly string[]): Rate[] {
  const folder = mkdtempSync(join(tmpdir(), "bench-sqlite-"));
  const db = new DatabaseSync(join(folder, "journal.sqlite"));
  try {
    db.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    for (const statement of migrations) if (statement.trim() !== "") db.exec(statement);
    db.exec("BEGIN");
    const open = db.prepare(
      `INSERT INTO accounts (account_id, owner, asset, kind, balance)
        VALUES (?, randomblob(16), 'usdc', ?, 0)`,
    );
    open.run(1, "external");
    for (let user = 0; user < USERS; user++)
      for (const side of [0, 1])
        open.run(2 + 2 * user + side, side === 0 ? "available" : "pending");
    const insert = db.prepare(
      `INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
        VALUES (?, ?, ?, ?, randomblob(16), ?, 0, ?)`,
    );
    for (let user = 0; user < USERS; user++) insert.run(1, 2 + 2 * user, 1_000_000_000, 1, 4, 1);
    db.exec("COMMIT");
    const rate = (hot: boolean, perCommit: number): Rate => {
      const started = performance.now();
      let done = 0;
      while (performance.now() - started < seconds * 1_000) {
        db.exec("BEGIN IMMEDIATE");
        for (let i = 0; i < perCommit; i++) {
          const account = 2 + 2 * (hot ? 1 : Math.floor(Math.random() * USERS));
          insert.run(account, account + 1, 1, 3, 1, 2);
        }
        db.exec("COMMIT");
        done += perCommit;
      }
      return {
        who: `SQLite in-process, ${perCommit === 1 ? "one" : perCommit} per commit`,
        clients: 1,
        hot,
        perSecond: done / ((performance.now() - started) / 1_000),
      };
    };
    return [rate(false, 1), rate(false, 64), rate(true, 1), rate(true, 64)];
  } finally {
    db.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * The journal of migrations/ in PostgreSQL: same columns, checks and keys, and a trigger that
 * posts.
 */
const POSTGRES_SCHEMA = `
CREATE TABLE accounts (account_id bigint PRIMARY KEY, owner bytea NOT NULL, asset text NOT NULL, kind text NOT NULL, balance bigint NOT NULL,
  UNIQUE (owner, asset, kind), CHECK (kind IN ('available', 'pending', 'external', 'fees')), CHECK (kind = 'external' OR balance >= 0));
CREATE TABLE commit_groups (seq bigserial PRIMARY KEY, group_id uuid NOT NULL UNIQUE, at timestamptz NOT NULL, voided int NOT NULL);
CREATE TABLE transfers (transfer_id bigserial PRIMARY KEY, from_account bigint NOT NULL, to_account bigint NOT NULL, amount bigint NOT NULL CHECK (amount > 0),
  reason smallint NOT NULL CHECK (reason BETWEEN 1 AND 7), ref uuid NOT NULL,
  step smallint NOT NULL CHECK (step BETWEEN 1
    AND 5), line int NOT NULL, at timestamptz NOT NULL, from_balance bigint, to_balance bigint,
      UNIQUE (ref, step, line), CHECK (from_account <> to_account));
CREATE INDEX transfers_from ON transfers (from_account, reason, transfer_id);
CREATE INDEX transfers_to ON transfers (to_account, reason, transfer_id);
CREATE INDEX transfers_from_amount ON transfers (from_account, reason, amount, transfer_id);
CREATE INDEX transfers_to_amount ON transfers (to_account, reason, amount, transfer_id)
  WHERE reason IN (1, 6);
CREATE FUNCTION post() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE accounts SET balance = balance - NEW.amount WHERE account_id = NEW.from_account
    RETURNING balance INTO NEW.from_balance;
  IF NOT FOUND THEN RAISE 'balance not moved'; END IF;
  UPDATE accounts SET balance = balance + NEW.amount WHERE account_id = NEW.to_account
    RETURNING balance INTO NEW.to_balance;
  IF NOT FOUND THEN RAISE 'balance not moved'; END IF;
  RETURN NEW; END $$;
CREATE TRIGGER transfers_post BEFORE INSERT ON transfers FOR EACH ROW EXECUTE FUNCTION post();
INSERT INTO accounts SELECT 1, 'external', 'usdc', 'external', 0;
INSERT INTO accounts SELECT 2 + 2 * u + s, decode(lpad(to_hex(u), 32, '0'), 'hex'), 'usdc', CASE s
  WHEN 0 THEN 'available' ELSE 'pending' END, 1000000000
  FROM generate_series(0, ${USERS - 1}) u, generate_series(0, 1) s;
`;

const postgresTransfer = (account: string) => `\\set u random(0, ${USERS - 1})
BEGIN;
INSERT INTO commit_groups (group_id, at, voided) VALUES (gen_random_uuid(), now(), 0);
INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
  SELECT f.account_id, t.account_id, 1, 3, gen_random_uuid(), 1, 0, now()
  FROM accounts f JOIN accounts t ON t.owner = f.owner AND t.asset = f.asset AND t.kind = 'pending'
    WHERE f.account_id = ${account};
COMMIT;
`;

export async function runPostgres(seconds: number): Promise<Rate[]> {
  const server = startPostgres(POSTGRES_SCHEMA);
  if (server === undefined) return [];
  try {
    const rates: Rate[] = [];
    for (const hot of [false, true])
      for (const clients of [1, 16]) {
        const script = postgresTransfer(hot ? "4" : "2 + 2 * :u");
        const perSecond = await server.load(script, { clients, seconds });
        rates.push({ who: "PostgreSQL, one per transaction", clients, hot, perSecond });
      }
    return rates;
  } finally {
    server.stop();
  }
}
