/**
 * What an edit of each column by SQL does, without the triggers of its table: `reconcile` finds it,
 * or docs/security.md names it, or it decides nothing. A new table or column fails here until that
 * is stated. What each check says of edits of whole rows is in tampering.test.ts.
 */
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import security from "../../docs/security.md?raw";
import { addressOf, depositAddressFor } from "../../src/chain/addresses.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { defaultChain } from "../../src/platform/config.ts";
import {
  all,
  blob,
  first,
  join,
  prepare,
  raw,
  type Sql,
  sql,
  type SqlParam,
  uuid,
} from "../../src/platform/sql.ts";
import { edit, endWithdrawal, fund, newAsset, queueWithdrawal } from "../support/ledger.ts";
import { settings } from "../support/http.ts";
import { command, commitCommand } from "../support/market.ts";
import { newUser } from "../support/users.ts";
import { FULL } from "../support/depth.ts";

const db = env.EDITED_DB;

/** They restore where the scans stand before an edit. */
let scans: readonly Sql[] = [];

/** The columns of which no check finds an edit. `named`: in docs/security.md. */
const UNSEEN: Readonly<Record<string, { readonly named?: string; readonly idle?: string }>> = {
  accounts: {},
  deposit_addresses: { named: "chain", idle: "created_at" },
  deposits: {
    named: "block_number block_hash ordinal position seen_group token",
    idle: "confirmed_group credited_at detected_at detected_group required_confirmations",
  },
  event_runs: { named: "at run_id" },
  matches: { named: "maker_label requester_label", idle: "at" },
  quotes: {
    named: "credential key_hash terms_hash",
    idle: "maker_open stuck_at label",
  },
  requests: {
    named: "key_hash terms_hash",
    idle: "stuck_at label",
  },
  streams: { named: "active_at pushed_seq" },
  transfers: { idle: "at line transfer_id" },
  vault_events: {
    idle:
      "asset batch_no block_hash block_number ordinal recorded_group skip_reason token token_id " +
      "transaction_hash vault",
  },
  withdrawals: {
    named: "changed_group",
    idle:
      "approval_mac approved_at created_at failure_code failure_message job_id not_before " +
      "queued_group updated_at",
  },
};

/** Tables whose rows other tests edit: what finds that. */
const FOUND_BY: Readonly<Record<string, string>> = {
  accepted_payments: "reconcile: record_mismatch",
  account_policies: "reconcile: rights_mismatch (test/auth/rights.test.ts)",
  api_keys: "its seal, and reconcile: rights_mismatch",
  audit_events: "audit verify",
  audit_seals: "audit verify",
  chain_transactions: "the payer compares it with the signed bytes",
  journal_seals: "journal verify",
  operator_proposals: "its seal",
  recovery_codes: "reconcile: rights_mismatch, but for the dates (docs/security.md)",
  sealed_balances: "journal verify",
  sealed_owners: "journal verify",
  standing_accepts: "its MAC: nothing is accepted (test/rfq/standing-accept.test.ts)",
  totp_secrets: "its seal, and reconcile: rights_mismatch, but for counters (docs/security.md)",
  webhook_endpoints: "its secrets are sealed to its URL and its user; the rest: docs/security.md",
  users: "reconcile: rights_mismatch, but for users.email (docs/security.md)",
  transaction_attempts: "the payer compares it with the signed bytes",
  withdrawal_addresses: "reconcile: rights_mismatch",
};

/** Tables that decide neither who gets money nor who sees history. */
const IDLE = [
  "alert_events",
  "candle_cursor",
  "expiry_commands",
  "owner_mends",
  "quote_commands",
  "service_levels",
  "statement_leases",
  "storage_samples",
];

beforeAll(async () => {
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
  const { key: book } = newAsset("venue_two");
  const requester = await newUser({ usdc: 10_000n }, db);
  const maker = await newUser({ [book]: 10_000n }, db);
  const ask = command.openRequest(requester, book, { amount: 1_000n });
  const winner = command.placeQuote(maker, ask.requestId, 700_000, 300);
  for (const sent of [ask, winner]) await commitCommand(book, sent, db);
  await commitCommand(book, command.accept(requester, winner.quoteId), db);
  // Made last, so that the newest rows by id are the open ones.
  const later = command.openRequest(requester, book, { amount: 1_000n });
  const open = command.placeQuote(maker, later.requestId, 900_000, 300);
  for (const sent of [later, open]) await commitCommand(book, sent, db);
  await endWithdrawal(await queueWithdrawal(requester, "usdc", 100n, { db }), "Paid", db);
  await queueWithdrawal(requester, "usdc", 50n, { db });
  const chain = defaultChain(settings());
  const { address, salt } = depositAddressFor(settings(), chain, requester.userId, 0);
  await all(
    db,
    sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES (${chain.chain}, ${blob(address)}, ${uuid(requester.userId)}, 0, ${blob(salt)}, 0)`,
  );
  await fund(requester.userId, "usdc", 1n, { chain: chain.chain, address, db });
  expect(await isWrong()).toBe(false);
  scans = await readScans();
});

it("states each table", async () => {
  const tables = await all<{ name: string }>(
    db,
    sql`SELECT name FROM sqlite_master WHERE type = 'table'
      AND name NOT GLOB 'sqlite_*' AND name NOT GLOB '_cf_*' AND name NOT GLOB 'd1_*'`,
  );
  const stated = { ...UNSEEN, ...FOUND_BY };
  const names = tables.map(({ name }) => name);
  expect(names.filter((name) => !(name in stated || isNamed(name))).toSorted()).toEqual(IDLE);
  expect(isNamed("users.email")).toBe(true);
  for (const [table, { named = "" }] of Object.entries(UNSEEN))
    for (const column of wordsOf(named))
      expect([`${table}.${column}`, isNamed(table) || isNamed(`${table}.${column}`)]).toEqual([
        `${table}.${column}`,
        true,
      ]);
});

it.each(Object.entries(UNSEEN))(
  "finds or names an edit of each column of %s",
  { timeout: 120_000 },
  async (table, { named = "", idle = "" }) => {
    const columns = await all<{ name: string; pk: number }>(
      db,
      sql`SELECT name, pk FROM pragma_table_info(${table})`,
    );
    const keys = columns.filter(({ pk }) => pk > 0).map(({ name }) => name);
    const stated = wordsOf(`${named} ${idle}`);
    const unseen: string[] = [];
    for (const { name } of columns)
      // A small run does not look for a check that finds one of those.
      if ((!FULL && stated.includes(name)) || !(await isFound({ table, column: name, keys })))
        unseen.push(name);
    expect(unseen.toSorted()).toEqual(stated.toSorted());
  },
);

function isNamed(name: string): boolean {
  return security.includes(`\`${name}\``);
}

function wordsOf(list: string): string[] {
  return list.split(" ").filter((word) => word !== "");
}

/** Whether an edit of the newest row is found, or refused by a type or a CHECK. Undoes it. */
async function isFound(of: {
  readonly table: string;
  readonly column: string;
  readonly keys: readonly string[];
}): Promise<boolean> {
  const { table, column, keys } = of;
  const other = `CASE typeof(${column}) WHEN 'integer' THEN ${column} + 1000
    WHEN 'blob' THEN randomblob(length(${column})) WHEN 'null' THEN 1
    ELSE iif(${column} GLOB '[1-9]*', ${column} + 1000, ${column} || 'x') END`;
  const quoted = [column, ...keys].map((name) => `quote(${name}) AS "old_${name}"`).join(", ");
  const row = await first<Record<string, string>>(
    db,
    sql`SELECT quote(${raw(other)}) AS changed, ${raw(quoted)} FROM ${raw(table)}
      ORDER BY ${raw(keys.map((name) => `${name} DESC`).join(", "))} LIMIT 1`,
  );
  const set = (to: string | undefined, key: string | undefined) =>
    raw(
      `UPDATE ${table} SET ${column} = ${to} WHERE ` +
        keys.map((n) => `${n} = ${n === column ? key : row?.[`old_${n}`]}`).join(" AND "),
    );
  const [changed, old] = [row?.["changed"], row?.[`old_${column}`]];
  const refused = await edit(db, table, [set(changed, old)]).then(
    () => false,
    () => true,
  );
  if (refused) return true;
  const found = await isWrong();
  await edit(db, table, [set(old, changed)]);
  await all(db, sql`UPDATE alerts SET resolved_at = 1 WHERE resolved_at IS NULL`);
  // An edit may have moved the recent scan ahead.
  await db.batch(scans.map((statement) => prepare(db, statement)));
  return found;
}

/** Statements that restore where the scans stand now. */
async function readScans(): Promise<Sql[]> {
  const statements: Sql[] = [];
  for (const table of ["ledger_checkpoints", "checked_balances"].map(raw)) {
    statements.push(sql`DELETE FROM ${table}`);
    const rows = await all<Record<string, SqlParam>>(db, sql`SELECT * FROM ${table}`);
    for (const row of rows) {
      const values = Object.values(row).map((value) => sql`${value}`);
      statements.push(sql`INSERT INTO ${table} VALUES (${join(values, ", ")})`);
    }
  }
  return statements;
}

async function isWrong(): Promise<boolean> {
  const keys = { macKeys: settings(), addressOf: addressOf(settings()) };
  const { differences } = await reconcile(db, { ...keys, chains: [], full: true });
  return differences.length > 0;
}
