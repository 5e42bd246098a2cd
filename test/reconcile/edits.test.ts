/**
 * What an edit of each column by SQL does, without the triggers of its table: the service refuses
 * what the row says, a check finds it, or it is of a class that docs/security.md lists. A new table
 * or column fails here until that is stated. Edits of whole rows are in tampering.test.ts.
 */
import { createHash } from "node:crypto";
import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import security from "../../docs/security.md?raw";
import { sealAudit } from "../../src/audit/seal.ts";
import { verifyAudit } from "../../src/audit/verify.ts";
import { dueEmailChanges, requestEmailChange } from "../../src/auth/change-email.ts";
import { confirmTotp } from "../../src/auth/enrol-totp.ts";
import { KEY_SEAL_COLUMNS, openKey, type SealedKey } from "../../src/auth/key-seal.ts";
import { createOperatorApiKey } from "../../src/auth/mint-key.ts";
import { sealSecret } from "../../src/auth/secret-box.ts";
import { bindingOfTotp, openTotp, type SealedTotp } from "../../src/auth/totp-secret.ts";
import { hashOfRecoveryCode, newTotpSecret } from "../../src/auth/totp.ts";
import { openWebhook } from "../../src/auth/webhook-secrets.ts";
import { consumeTicket, giveBackTicket, issueTicket } from "../../src/auth/ws-ticket.ts";
import { addressOf, depositAddressFor } from "../../src/chain/addresses.ts";
import {
  createWithdrawalAddress,
  isEntry,
  macOfEntry,
} from "../../src/custody/withdrawal-addresses.ts";
import { createEndpoint } from "../../src/feeds/webhooks/endpoints.ts";
import { approve, propose } from "../../src/operator/approvals.ts";
import { checkedActor } from "../../src/platform/actor.ts";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { defaultChain } from "../../src/platform/config.ts";
import {
  all,
  blob,
  first,
  join,
  prepare,
  raw,
  readUuid,
  select,
  type Sql,
  sql,
  type SqlParam,
  uuid,
} from "../../src/platform/sql.ts";
import {
  edit,
  endWithdrawal,
  fund,
  newAddress,
  newAsset,
  queueWithdrawal,
} from "../support/ledger.ts";
import { settings } from "../support/http.ts";
import { command, commitCommand } from "../support/market.ts";
import { codeOfStep, presentStep } from "../support/totp.ts";
import { newUser, type TestUser } from "../support/users.ts";
import { FULL } from "../support/depth.ts";
import { changePair } from "../../src/rfq/pairs/redeem.ts";

const db = env.EDITED_DB;

/** They restore where the scans stand before an edit. */
let scans: readonly Sql[] = [];

/** What is stated of each column. The words but the first two are classes of docs/security.md. */
const STATED = readStated(`
  accept_commands
    note: match_id requester_id api_key_id session_epoch session_expires_at received_at
    note: commit_before not_after cancels_others standing at accepted_group quote_id request_id
    note: maker_id credential asset complement side price amount usdc_amount taker_fee maker_fee
    note: reserve reserve_asset maker_label
  accepted_payments
    money: acceptance_id chain payment_id kind user_id asset amount
    note: reason actor at accepted_group
  account_policies
    guard: user_id active_from version sessions_trade max_trade_usdc_per_day
    guard: withdraw_max_usdc_per_day withdraw_listed_only withdraw_approval_above
  accounts
    found: account_id owner asset kind balance promised sub_account traded traded_usdc
  alert_events
    note: event_id alert_id resolved
  alerts
    guard: alert_id kind subject detail at resolved_at
  api_keys
    refused: api_key_id user_id scopes secret_sealed master_key_id allowed_ips limits
    refused: require_idempotency minted_by active_from expires_at
    guard: revoked_at created_at networks
    display: label
    note: approved_at last_used_at
  armed_sockets
    terms: armed_id socket_id user_id api_key_id stream asked_at taken_over_at
  audit_anchor
    delay: one audit_seq
  audit_events
    found: audit_seq audit_event_id kind actor user_id api_key_id ip subject_id details mac at
  audit_seals
    found: audit_seq hash key_id signature
    note: sealed_at
  batch_members
    delay: transaction_id withdrawal_id purpose ended_group outcome
  cancel_timers
    terms: credential user_id cancel_at closed
  candle_cursor
    display: one minute moved_group
  candles
    display: asset step start open high low close amount usdc_amount trades last_at
  chain_blocks
    delay: chain number hash
  chain_commands
    delay: command_id chain kind withdrawal_id from_block to_block actor at done_group result
  chain_cursors
    guard: halted_at halt_reason
    delay: chain confirmed_number confirmed_hash scanned_number scanned_hash head_number
    delay: moved_group moved_at rechecked_number finalized_number finalized_at floors floors_after
  chain_factories
    guard: chain factory verified_at
  chain_transactions
    delay: transaction_id chain sender nonce kind batch_no to_address data gas_limit status
    delay: made_group made_at ended_group reopened_group
  checked_balances
    guard: scan account_id balance traded traded_usdc
  commit_groups
    guard: seq group_id at voided
  daily_counts
    guard: day user_id kind count
  delivery_cursors
    delay: name position failing_since
  deposit_addresses
    found: address user_id nonce salt
    delay: chain
    note: created_at
  deposits
    found: deposit_id chain transaction_hash address user_id asset amount status ended_group
    money: block_number block_hash ordinal position seen_group token
    note: confirmed_group credited_at detected_at detected_group required_confirmations
  email_changes
    refused: user_id audit_event_id email password_hash
    delay: active_from
  event_commands
    note: stream n written_group at ids events
  event_runs
    found: stream_id last_seq first_seq ids events
    display: at run_id
  expiry_commands
    note: asset user_ids quote_ids operation at expired_group
  journal_seals
    found: number epoch after_transfer up_to_transfer after_group up_to_group transfers requests
    found: quotes matches last_at bytes previous sha256
    delay: delivered_at released_at held matches_released_at sealed_at
  kill_switches
    guard: name reason since
  ledger_checkpoints
    guard: scan position mark finished_at
  liability_proofs
    guard: published_at
    delay: day up_to_transfer accounts slice_accounts key_id slices
  login_attempts
    guard: attempt_id email_hash network at succeeded
  login_networks
    guard: user_id network at
  market_corrections
    display: correction_id asset title outcome previous_title previous_outcome at set_group
    display: told_up_to told_group told_at
  market_results
    display: result_id asset result previous at set_group told_up_to told_group told_at
    money: settles_at
  markets
    display: asset title outcome url closes_at closed_at test changed_group result event_id
    display: category description rules_url folded
    money: complement condition slot settles_at read_at pays paid_at
  matches
    found: match_id request_id quote_id requester_id maker_id asset side amount price usdc_amount
    found: taker_fee maker_fee matched_group complement
    display: maker_label requester_label
    note: at
  opened_streams
    guard: user_id opener stream opened_at
  operator_orders
    delay: order_id operator sha256 audit_event_id answer master_key_id at
  operator_proposals
    refused: proposal_id operator content seal master_key_id
    guard: status decided_by at
  owner_mends
    note: one
  paused_venues
    guard: venue since
  payer_leases
    guard: halted_at halt_reason
    delay: chain token taken_at batch_floor floor_vault sequences_advanced_at
  protection_counts
    terms: user_id period at matches_before usdc_before
  protections
    terms: user_id window_secs max_matches max_usdc cooldown_secs period matches usdc tripped_at
    terms: blocked_until tripped_by changed_group max_deviation
  quote_commands
    note: quote_id request_id maker_id api_key_id session_epoch session_expires_at price amount
    note: side usdc_amount taker_fee maker_fee reserve_asset reserve received_at life_ms
    note: commit_before not_after label replaces max_open_quotes socket_id key_hash terms_hash at
    note: placed_group confirm_price min_priced backing
  quotes
    found: quote_id request_id maker_id asset amount side price usdc_amount taker_fee maker_fee
    found: reserve status opened_at expires_at opened_group cancel_reason replaced_by ended_by
    found: ended_group complement
    terms: credential key_hash terms_hash
    delay: maker_open stuck_at
    display: label
  recovery_codes
    refused: user_id code_hash
    display: active_from
    note: ends_at
  redemptions
    found: redemption_id user_id asset pair kind amount usdc_amount made_group
    terms: key_hash terms_hash
    note: at
  removed_streams
    display: only last_seq
  requests
    found: request_id requester_id asset amount usdc_amount side disclosed status opened_at
    found: expires_at opened_group ended_by ended_group
    terms: key_hash terms_hash
    delay: stuck_at
    display: label
  sealed_balances
    found: account_id balance
    display: traded traded_usdc
  sealed_owners
    found: owner first_seal last_seal last_request_at last_quote_at last_match_at
  service_levels
    note: id at body
  shortfalls
    guard: chain asset block missing
  small_deposits
    money: small_id key deposit_id user_id chain nonce transaction_hash token ordinal position
    money: block_number venue asset_id amount required_confirmations detected_at due
  standing_accepts
    refused: request_id requester_id side price api_key_id session_epoch session_expires_at mac
    note: changed_by changed_group refused_for refused_quote refused_group
  statement_leases
    note: user_id token expires_at
  storage_samples
    note: day at bytes
  stream_subscribers
    delay: name token since
  streams
    found: stream_id name last_seq first_seq
    delay: active_at pushed_seq
  sweepable
    delay: chain asset address amount block_number not_before
  totp_attempts
    guard: attempt_id user_id network at
  totp_secrets
    refused: user_id status secret_sealed master_key_id created_at next_sealed next_master_key_id
    refused: next_from recovered
    guard: last_step wrong_codes ends_at
  traded_hours
    guard: subject hour usdc
  transaction_attempts
    delay: transaction_id attempt hash signed max_fee priority_fee signed_group signed_at
    delay: head_number
  transfers
    found: from_account to_account amount reason ref step from_balance to_balance from_sub_account
    found: to_sub_account
    note: at line transfer_id
  users
    login: user_id password_hash
    display: email
    note: created_at
    guard: session_epoch frozen_at frozen_by hold_until
  vault_events
    found: chain kind payment_id amount to_address
    note: asset batch_no block_hash block_number ordinal recorded_group skip_reason token token_id
    note: transaction_hash vault
  venue_days
    display: day venue trades usdc_amount taker_fee maker_fee
  webhook_endpoints
    refused: endpoint_id user_id url types secrets_sealed master_key_id
    note: created_at
    delay: after_seq disabled_at disabled_reason disabled_seq
  withdrawal_addresses
    refused: user_id chain address active_from mac
    display: label
    note: address_id created_at
  withdrawals
    found: withdrawal_id user_id client_withdrawal_id payment_id chain asset amount to_address
    found: status approval_expires_at transaction_hash ended_by terms_mac
    guard: changed_group
    note: approval_mac approved_at created_at failure_code failure_message job_id not_before
    note: queued_group updated_at
  ws_tickets
    refused: ticket_hash user_id api_key_id session_epoch session_expires_at scopes
    guard: expires_at used_at
`);

/** Tables without a row here: tests of the archive and rfq/standing-accept.test.ts edit them. */
const ELSEWHERE = ["journal_seals", "sealed_balances", "sealed_owners", "standing_accepts"];

type Stated = ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>;

/** Lines of two spaces name a table, those of four spaces a verdict and its columns. */
function readStated(text: string): Stated {
  const tables = new Map<string, Map<string, string[]>>();
  let verdicts = new Map<string, string[]>();
  for (const line of text.split("\n").filter((one) => one.trim() !== "")) {
    const [verdict = "", columns] = line.trim().split(":");
    if (columns === undefined) tables.set(verdict, (verdicts = new Map()));
    else verdicts.set(verdict, [...(verdicts.get(verdict) ?? []), ...columns.trim().split(" ")]);
  }
  return tables;
}

const DAY = { AUTH_SECURITY_DELAY_SECS: 86_400 };
const TWO = { OPERATORS: { test: "x", second: "y" } };

/** Whether the service still accepts what a row says, by the table of the row. */
const PROBES: Record<string, { readonly where?: Sql; readonly works: () => Promise<unknown> }[]> =
  {};

function probe(table: string, works: () => Promise<unknown>, where?: Sql): void {
  (PROBES[table] ??= []).push({ works, ...(where && { where }) });
}

beforeAll(async () => {
  await applyD1Migrations(db, env.TEST_MIGRATIONS);
  // First, so that the newest rows are those that the checks compare.
  const user = await newUser({}, db);
  await totp(await newUser({}, db));
  for (const grant of [apiKey, listed, ticket, webhook, emailChange, proposal]) await grant(user);
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
  const [yes, no] = [newAsset("venue_four"), newAsset("venue_four")];
  await all(
    db,
    sql`INSERT INTO markets (asset, title, outcome, changed_group, complement)
      VALUES (${yes.key}, 'Rain', 'Yes', 1, ${no.key}), (${no.key}, 'Rain', 'No', 1, ${yes.key})`,
  );
  const order = { actor: requester.actor, asset: yes.key, amount: 100n, notAfter: undefined };
  const idempotency = { key: "one", terms: "[]" };
  for (const verb of ["split", "redeem"] as const)
    await changePair(db, settings(), verb, { ...order, idempotency });
  const chain = defaultChain(settings());
  const { address, salt } = depositAddressFor(settings(), chain, requester.userId, 0);
  await all(
    db,
    sql`INSERT INTO deposit_addresses (chain, address, user_id, nonce, salt, created_at)
      VALUES (${chain.chain}, ${blob(address)}, ${uuid(requester.userId)}, 0, ${blob(salt)}, 0)`,
  );
  await fund(requester.userId, "usdc", 1n, { chain: chain.chain, address, db });
  await sealAudit(db, settings());
  for (const table of ["audit_events", "audit_seals"])
    probe(table, async () => (await verifyAudit(db, settings())).discrepancies.length === 0);
  expect(await isWrong()).toBe(false);
  scans = await readScans();
});

/** A device, another one that waits, with their codes, and a third one that is not confirmed. */
async function totp({ userId, actor }: TestUser): Promise<void> {
  const ring = settings().MASTER_KEYS;
  const mine = sql`user_id = ${uuid(userId)}`;
  const pending = { userId, status: "pending", recovered: 0 } as const;
  const start = async () => {
    const secret = newTotpSecret();
    const box = await sealSecret(ring, secret, bindingOfTotp(pending));
    await all(
      db,
      sql`INSERT INTO totp_secrets (user_id, status, secret_sealed, master_key_id, last_step,
          wrong_codes, created_at, ends_at, recovered)
        VALUES (${uuid(userId)}, 'pending', ${box.sealed}, ${box.masterKeyId}, 0, 0, 0,
          ${Date.now() + 600_000}, 0)`,
    );
    return codeOfStep(secret, presentStep());
  };
  const confirm = async () =>
    confirmTotp(db, settings(DAY), { actor, code: await start(), clientIp: undefined });
  const codes = (await confirm()).recovery_codes;
  await all(db, sql`DELETE FROM totp_secrets WHERE ${mine} AND status = 'pending'`);
  await confirm();
  await all(db, sql`DELETE FROM totp_secrets WHERE ${mine} AND status = 'pending'`);
  await start();
  const secretOf = async (columns: string, status: string) =>
    first<SealedTotp>(
      db,
      sql`SELECT ${raw(columns)} FROM totp_secrets WHERE ${mine} AND status = ${status}`,
    );
  const present = "secret_sealed AS sealed, master_key_id AS masterKeyId, created_at AS since";
  const next = "next_sealed AS sealed, next_master_key_id AS masterKeyId, next_from AS since";
  for (const columns of [present, next])
    probe(
      "totp_secrets",
      async () => {
        const row = (await secretOf(columns, "confirmed"))!;
        await openTotp(ring, row, { userId, status: "confirmed", since: row.since });
        return true;
      },
      sql`${mine} AND status = 'confirmed'`,
    );
  const began = (await secretOf(present, "confirmed"))!.since;
  const [code = ""] = codes;
  const hash = blob(hashOfRecoveryCode(settings(), { userId, since: began }, code));
  probe(
    "recovery_codes",
    () => first(db, sql`SELECT 1 FROM recovery_codes WHERE ${mine} AND code_hash = ${hash}`),
    sql`code_hash = ${hash}`,
  );
  probe(
    "totp_secrets",
    async () => {
      const columns = "secret_sealed AS sealed, master_key_id AS masterKeyId, recovered";
      const row = (await secretOf(columns, "pending")) as SealedTotp & { recovered: number };
      await openTotp(ring, row, { ...pending, recovered: row.recovered });
      return true;
    },
    sql`${mine} AND status = 'pending'`,
  );
}

async function apiKey({ userId }: TestUser): Promise<void> {
  const rights = { scopes: ["read", "trade"], allowedIps: null, limits: null } as const;
  const key = { label: "bot", expiresAt: null, requireIdempotency: false, ...rights };
  const minted = await createOperatorApiKey(db, settings(), { userId, operator: "test", key });
  const mine = sql`k.api_key_id = ${uuid(minted!.api_key_id)}`;
  probe("api_keys", async () => {
    const row = await first<SealedKey>(
      db,
      sql`SELECT ${select(KEY_SEAL_COLUMNS)} FROM api_keys k WHERE ${mine}`,
    );
    return row && openKey(settings(), row);
  });
}

async function listed({ userId, actor }: TestUser): Promise<void> {
  const entry = { chain: "local", address: newAddress() };
  const by = { actor: checkedActor(actor, null), ip: undefined, label: "cold" };
  await createWithdrawalAddress(db, settings(), { ...by, ...entry });
  probe("withdrawal_addresses", () => macOfEntry(db, settings(), isEntry(userId, entry)));
}

async function ticket({ actor }: TestUser): Promise<void> {
  const issued = await issueTicket(db, settings(), { actor, scopes: ["read"] });
  probe("ws_tickets", async () => {
    const upgrade = { ticket: issued.ticket, stream: "x", clientIp: undefined };
    await all(db, sql`UPDATE ws_tickets SET expires_at = ${Date.now() + 60_000}`);
    try {
      return await consumeTicket(db, settings(), upgrade);
    } finally {
      await giveBackTicket(db, issued.ticket);
    }
  });
}

async function webhook({ actor }: TestUser): Promise<void> {
  await createEndpoint(db, settings(), {
    actor: checkedActor(actor, null),
    ip: undefined,
    url: "https://hooks.example.com/",
    types: ["match.created"],
    prepare: async () => {},
  });
  probe("webhook_endpoints", async () => {
    const row = (await first<SealedTotp & Record<"id" | "user" | "url" | "types", string>>(
      db,
      sql`SELECT hex(endpoint_id) AS id, hex(user_id) AS user, url, types,
          secrets_sealed AS sealed, master_key_id AS masterKeyId FROM webhook_endpoints`,
    ))!;
    const ids = { endpointId: readUuid(row.id), userId: readUuid(row.user) };
    return openWebhook(settings().MASTER_KEYS, row, { ...ids, url: row.url, types: row.types });
  });
}

async function emailChange({ userId }: TestUser): Promise<void> {
  const request = { userId, operator: "test", keepKeys: true, passwordHash: "x" };
  const at = settings({ AUTH_SECURITY_DELAY_SECS: 0 });
  await requestEmailChange(db, at, { ...request, email: "new@example.com" });
  probe("email_changes", async () => (await dueEmailChanges(db, settings())).length > 0);
}

async function proposal(): Promise<void> {
  const context = (operator: string, options: Record<string, string>) => ({
    env: { ...env, DB: db },
    settings: { ...settings(), ...TWO },
    words: [],
    operator,
    options,
  });
  const asked = { command: ["venue", "resume"], options: {} };
  const { proposal_id: id } = (await propose(context("test", {}), asked)) as {
    proposal_id: string;
  };
  const row = sql`SELECT content FROM operator_proposals`;
  const { content: text } = (await first<{ content: string }>(db, row))!;
  const sha256 = createHash("sha256").update(text).digest("hex");
  probe("operator_proposals", () => approve(context("second", { id, sha256 })));
}

it("states each column of each table once, and each class in the threat model", async () => {
  const columns = await all<{ name: string; column: string }>(
    db,
    sql`SELECT m.name, c.name AS "column" FROM sqlite_master m, pragma_table_info(m.name) c
      WHERE m.type = 'table' AND m.name NOT GLOB 'sqlite_*' AND m.name NOT GLOB '_cf_*'
        AND m.name NOT GLOB 'd1_*'`,
  );
  const stated = [...STATED].flatMap(([table, verdicts]) =>
    [...verdicts.values()].flat().map((column) => `${table}.${column}`),
  );
  const there = columns.map(({ name, column }) => `${name}.${column}`);
  expect(stated.toSorted()).toEqual(there.toSorted());
  const [, section = ""] = security.split("## What SQL access can still do");
  const [list = ""] = section.split(/\n##+ /);
  expect(list.split(/\s+/).length).toBeLessThan(300);
  const classes = [...list.matchAll(/^- \*\*(\w+)/gm)].map(([, word = ""]) => word.toLowerCase());
  const used = new Set([...STATED.values()].flatMap((verdicts) => [...verdicts.keys()]));
  expect([...used].toSorted()).toEqual(["found", "refused", ...classes].toSorted());
});

/** The tables of which a check finds edits, and those whose rows bind what they grant. */
const CHECKED = [...STATED.keys()].filter(
  (table) =>
    !ELSEWHERE.includes(table) && ["found", "refused"].some((one) => STATED.get(table)?.has(one)),
);

it.each(CHECKED)(
  "refuses, finds or lists an edit of each column of %s",
  { timeout: 120_000 },
  async (table) => {
    const verdicts = STATED.get(table)!;
    const probes = PROBES[table];
    // Each column that is found costs a full reconciliation.
    const found = (verdicts.get("found") ?? []).filter((_, index) => FULL || index % 4 === 0);
    const kept = [...(verdicts.get("refused") ?? []), ...found];
    const missed: string[] = [];
    for (const column of kept) if (!(await isStopped(table, column))) missed.push(column);
    expect(missed).toEqual([]);
    for (const { works } of probes ?? []) expect(await works()).toBeTruthy();
    if (!FULL || probes !== undefined) return;
    const others = [...verdicts.values()].flat().filter((column) => !kept.includes(column));
    for (const column of others)
      if (await isStopped(table, column)) missed.push(`${column} is found`);
    expect(missed).toEqual([]);
  },
);

/** Whether no probe accepts an edited row, or a check finds it. */
async function isStopped(table: string, column: string): Promise<boolean> {
  for (const { where, works } of PROBES[table] ?? [{ works: undefined, where: undefined }]) {
    const stops = works && (async () => !(await works().catch(() => false)));
    if (await stopped({ table, column, where, stops: stops ?? isWrong })) return true;
  }
  return false;
}

/** Edits a row, the newest one without `where`, and undoes it. True also if SQLite refuses it. */
async function stopped(of: {
  readonly table: string;
  readonly column: string;
  readonly where: Sql | undefined;
  readonly stops: () => Promise<boolean>;
}): Promise<boolean> {
  const { table, column, where = sql`1`, stops } = of;
  const columns = await all<{ name: string; pk: number }>(
    db,
    sql`SELECT name, pk FROM pragma_table_info(${table})`,
  );
  const keys = columns.filter(({ pk }) => pk > 0).map(({ name }) => name);
  const other = `CASE typeof(${column}) WHEN 'integer' THEN ${column} + 1000
    WHEN 'blob' THEN randomblob(length(${column})) WHEN 'null' THEN 1
    ELSE iif(${column} GLOB '[1-9]*', ${column} + 1000, ${column} || 'xxxx') END`;
  const quoted = [column, ...keys].map((name) => `quote(${name}) AS "old_${name}"`).join(", ");
  const row = await first<Record<string, string>>(
    db,
    sql`SELECT quote(${raw(other)}) AS changed, ${raw(quoted)} FROM ${raw(table)} WHERE ${where}
      ORDER BY ${raw(keys.map((name) => `${name} DESC`).join(", "))} LIMIT 1`,
  );
  if (row === undefined) throw new Error(`${table} has no row`);
  const set = (to: string | undefined, key: string | undefined) =>
    raw(
      `UPDATE ${table} SET ${column} = ${to} WHERE ` +
        keys.map((n) => `${n} = ${n === column ? key : row[`old_${n}`]}`).join(" AND "),
    );
  const [changed, old] = [row["changed"], row[`old_${column}`]];
  const refused = await edit(db, table, [set(changed, old)]).then(
    () => false,
    () => true,
  );
  if (refused) return true;
  const found = await stops();
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
