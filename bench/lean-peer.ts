/** The tables and users of peers/lean.mjs. */
import type { Person } from "./people.ts";
import { type BenchStack, ONE_CALL } from "./stack.ts";

/** A quote is found by its id only. An index by request would be a third row. */
const SCHEMA = [
  `CREATE TABLE accounts (owner BLOB PRIMARY KEY, balance INTEGER NOT NULL,
    promised INTEGER NOT NULL, CHECK (promised BETWEEN 0 AND balance)) STRICT, WITHOUT ROWID`,
  `CREATE TABLE quotes (quote_id BLOB PRIMARY KEY, request_id BLOB NOT NULL, maker BLOB NOT NULL,
    price INTEGER NOT NULL, amount INTEGER NOT NULL, reserve INTEGER NOT NULL,
    expires_at INTEGER NOT NULL, status TEXT NOT NULL) STRICT, WITHOUT ROWID`,
  `CREATE TRIGGER quotes_promise AFTER INSERT ON quotes BEGIN
    UPDATE accounts SET promised = promised + NEW.reserve WHERE owner = NEW.maker;
  END`,
];

/** Creates the tables, with so many older quotes of others. */
export async function fillLeanPeer(
  { peerDb }: Pick<BenchStack, "peerDb">,
  quotes: number,
): Promise<void> {
  await peerDb.batch(SCHEMA.map((statement) => peerDb.prepare(statement)));
  await peerDb
    .prepare(
      `WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < ?)
       INSERT INTO quotes SELECT unhex(printf('%032x', v)), randomblob(16), randomblob(16), 500000,
         1000, 1000, 0, 'expired' FROM n`,
    )
    .bind(quotes)
    .run();
}

/** Gives the users an account and lets them sign. */
export async function joinLeanPeer(
  { peerDb, peerPort }: Pick<BenchStack, "peerDb" | "peerPort">,
  people: readonly Person[],
  balance = 10 ** 12,
): Promise<void> {
  await peerDb
    .prepare("INSERT INTO accounts SELECT unhex(value, '-'), ?, 0 FROM json_each(?)")
    .bind(balance, JSON.stringify(people.map(({ userId }) => userId)))
    .run();
  const body = JSON.stringify(
    people.map(({ userId, apiKeyId, secret }) => ({ userId, apiKeyId, secret })),
  );
  const response = await fetch(`http://127.0.0.1:${peerPort}/bench/people`, {
    method: "POST",
    body,
    ...ONE_CALL,
  });
  if (!response.ok) throw new Error(await response.text());
}
