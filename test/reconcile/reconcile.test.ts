import { env } from "cloudflare:workers";
import { type Reason, reasonCode, type Step, stepCode } from "../../src/ledger/codes.ts";
import { afterAll, expect, it } from "vitest";
import { reconcile } from "../../src/reconcile/reconcile.ts";
import { all, first, raw, type Sql, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { fund, insertWithdrawal, newAsset, tamper } from "../support/ledger.ts";
import { newUser } from "../support/users.ts";
import {
  cancelAsService,
  command,
  matchOf,
  openRequest,
  placeQuote,
  quotedMarket,
  submit,
} from "../support/market.ts";
import type { Difference } from "../../src/reconcile/difference.ts";
import { settings } from "../support/http.ts";
import { answerAlert } from "../support/pager.ts";

const db = env.DB;

/** Closes the alerts that these tests raise, so that tests of other files see none of them. */
afterAll(() =>
  all(
    db,
    sql`UPDATE alerts SET resolved_at = 1 WHERE kind = 'reconciliation' AND resolved_at IS NULL`,
  ),
);

/**
 * Reconciles and returns the open differences about a name. Reads the alerts, because the result
 * lists only the newest differences and other tests leave many.
 */
async function found(name: string, full = false): Promise<Difference[]> {
  const differences = await foundWithEvents(name, full);
  return differences.filter((difference) => difference.check !== "event_mismatch");
}

/**
 * As `found`, but with the events that contradict a changed record. tampering.test.ts covers them.
 */
async function foundWithEvents(name: string, full: boolean): Promise<Difference[]> {
  await reconcile(db, { macKeys: settings(), chains: [], full });
  const open = await all<{ detail: string }>(
    db,
    sql`SELECT detail FROM alerts WHERE kind = 'reconciliation' AND resolved_at IS NULL`,
  );
  const differences = open.map(({ detail }): Difference => JSON.parse(detail));
  return differences.filter(
    (difference) => difference.account.includes(name) || difference.detail.includes(name),
  );
}

async function account(userId: string, key: string, kind = "available"): Promise<number> {
  const row = await first<{ id: number }>(
    db,
    sql`SELECT account_id AS id FROM accounts
      WHERE owner = ${uuid(userId)} AND asset = ${key} AND kind = ${kind}`,
  );
  return row?.id ?? 0;
}

type Transfer = {
  readonly from: number;
  readonly to: number;
  readonly amount: number;
  readonly reason: Reason;
  readonly ref: string;
  readonly step: Step;
  readonly line?: number;
};

/** The INSERT that direct SQL would send. */
function insertTransfer({ from, to, amount, reason, ref, step, line = 0 }: Transfer): Sql {
  return sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
    VALUES (${from}, ${to}, ${amount}, ${reasonCode(reason)}, ${uuid(ref)}, ${stepCode(step)},
      ${line}, (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1))`;
}

async function holder(amount = 100n) {
  const user = await newUser();
  const { key } = newAsset();
  const deposit = await fund(user.userId, key, amount);
  return { ...user, key, deposit };
}

it("finds no difference in a sound journal", async () => {
  const { userId } = await holder();
  expect(await found(userId)).toEqual([]);
  const again = await reconcile(db, { macKeys: settings(), chains: [] });
  expect(again.complete).toBe(true);
});

it("reports a changed balance with its account and amount", async () => {
  const { userId, key } = await holder();
  const id = await account(userId, key);
  await tamper(
    "accounts_update",
    sql`UPDATE accounts SET balance = balance + 7 WHERE account_id = ${id}`,
  );
  expect(await found(userId, true)).toMatchObject([
    { check: "balance_mismatch", account: `${userId}/available/${key}`, amount: "7" },
  ]);
  await tamper(
    "accounts_update",
    sql`UPDATE accounts SET balance = balance - 7 WHERE account_id = ${id}`,
  );
});

it("reports a broken running balance in a later full reconciliation", async () => {
  const { userId, key } = await holder();
  await found(userId);
  const id = await account(userId, key);
  await tamper(
    "transfers_update",
    sql`UPDATE transfers SET to_balance = 90 WHERE to_account = ${id}`,
  );
  const after = await found(userId, true);
  expect(after.filter((one) => one.check === "running_balance_broken")).toMatchObject([
    { account: `${userId}/available/${key}`, amount: "-10" },
  ]);
  await tamper(
    "transfers_update",
    sql`UPDATE transfers SET to_balance = 100 WHERE to_account = ${id}`,
  );
});

it("reports a changed amount for both accounts", async () => {
  const { userId, key } = await holder();
  const id = await account(userId, key);
  await tamper("transfers_update", sql`UPDATE transfers SET amount = 99 WHERE to_account = ${id}`);
  const names = (await found(key, true)).map((one) => `${one.check} ${one.account} ${one.amount}`);
  expect(names).toContain(`running_balance_broken ${userId}/available/${key} 1`);
  expect(names).toContain(`running_balance_broken external:local/external/${key} -1`);
  expect(names.some((name) => name.startsWith("record_mismatch"))).toBe(true);
  await tamper("transfers_update", sql`UPDATE transfers SET amount = 100 WHERE to_account = ${id}`);
});

it("reports a transfer between two assets, and one without a record", async () => {
  const { userId, key } = await holder();
  const other = await holder();
  const [mine, theirs] = [await account(userId, key), await account(other.userId, other.key)];
  const reserve = { from: mine, amount: 5, reason: "reserve_rfq", step: "reserve" } as const;
  const pending = await account(userId, key, "pending");
  await all(db, insertTransfer({ ...reserve, to: pending, ref: uuidv7() }));
  expect((await found(userId)).map((one) => one.check).toSorted()).toEqual([
    "pending_mismatch",
    "record_mismatch",
  ]);
  await tamper("transfers_insert", insertTransfer({ ...reserve, to: theirs, ref: uuidv7() }));
  expect((await found(userId)).map((one) => one.check)).toContain("transfer_invalid");
});

it("reports a withdrawal that reserved nothing", async () => {
  const { userId, key } = await holder();
  const { withdrawalId: id } = await insertWithdrawal(userId, {
    asset: key,
    amount: 30n,
    changedGroup: sql`(SELECT max(seq) + 1 FROM commit_groups)`,
  });
  await fund(userId, key, 1n);
  const differences = await found(userId, true);
  expect(differences.map((one) => `${one.check} ${one.amount} ${one.account}`).toSorted()).toEqual([
    `pending_mismatch -30 ${userId}/pending/${key}`,
    `record_mismatch 30 ${userId}/available/${key}`,
  ]);
  expect(differences.find((one) => one.check === "record_mismatch")?.detail).toContain("missing");
  await tamper(
    "withdrawals_delete",
    sql`DELETE FROM withdrawals WHERE withdrawal_id = ${uuid(id)}`,
  );
});

it("reports a negative balance, and an instant that went back", async () => {
  for (const [check, broken, sound] of [
    ["negative_balance", "to_balance = -1", "to_balance = 100"],
    ["clock_went_back", "at = at - 1e12", "at = at + 1e12"],
  ] as const) {
    const { userId, key } = await holder();
    const id = await account(userId, key);
    const { transfer } =
      (await first<{ transfer: number }>(
        db,
        sql`SELECT transfer_id AS transfer FROM transfers WHERE to_account = ${id}`,
      )) ?? {};
    await tamper(
      "transfers_update",
      sql`UPDATE transfers SET ${raw(broken)} WHERE transfer_id = ${transfer ?? 0}`,
    );
    const differences = await found(`transfer ${transfer} (deposit)`, true);
    await tamper(
      "transfers_update",
      sql`UPDATE transfers SET ${raw(sound)} WHERE transfer_id = ${transfer ?? 0}`,
    );
    expect(differences.map((one) => one.check)).toEqual([check]);
  }
});

it("reports a removed transfer, whether in the middle or newest", async () => {
  for (const [place, check] of [
    ["min", "running_balance_broken"],
    ["max", "balance_mismatch"],
  ] as const) {
    const { userId, key } = await holder();
    await fund(userId, key, 7n);
    const taken = sql`transfer_id = (SELECT ${raw(place)}(transfer_id) FROM transfers
      WHERE to_account = ${await account(userId, key)})`;
    await all(db, sql`CREATE TABLE taken AS SELECT * FROM transfers WHERE ${taken}`);
    await tamper("transfers_delete", sql`DELETE FROM transfers WHERE ${taken}`);
    const differences = (await found(`${userId}/available/${key}`, true)).map((one) => one.check);
    await tamper(
      ["transfers_insert", "transfers_post"],
      sql`INSERT INTO transfers SELECT * FROM taken`,
    );
    await all(db, raw("DROP TABLE taken"));
    expect(differences.toSorted()).toEqual([check, "record_mismatch"].toSorted());
  }
});

it("reports a reserve into another user's pending", async () => {
  const giver = await holder();
  const other = await newUser({ [giver.key]: 1n });
  const from = await account(giver.userId, giver.key);
  const to = await account(other.userId, giver.key, "pending");
  await all(
    db,
    insertTransfer({
      from,
      to,
      amount: 5,
      reason: "reserve_rfq",
      ref: uuidv7(),
      step: "reserve",
    }),
  );
  expect((await found(giver.userId)).map((one) => one.check)).toContain("record_mismatch");
});

it.each(["opened", "ended"])("reports a false promise once a quote is %s", async (change) => {
  const maker = await holder();
  const { userId, key } = maker;
  const { request_id } = await openRequest(await newUser(), key, { amount: 10n });
  const { quote_id: quoteId } = await placeQuote(maker, request_id, 500_000);
  await placeQuote(maker, request_id, 500_000);
  expect(await found(userId, true)).toEqual([]);
  const id = await account(userId, key);
  const promise = (amount: number) =>
    all(
      db,
      sql`UPDATE accounts SET promised = promised + ${amount}
        WHERE account_id = ${id}`,
    );
  await promise(3);
  // The scan of the newest groups visits the makers of quotes that were opened or ended.
  if (change === "opened") await placeQuote(maker, request_id, 500_000);
  else await submit(command.cancelQuote(maker, quoteId));
  expect(await found(userId)).toMatchObject([
    { check: "promised_mismatch", account: `${userId}/available/${key}`, amount: "3" },
  ]);
  await promise(-3);
});

it("finds the quotes of a group by ids of other instants", async () => {
  const maker = await holder();
  const { request_id } = await openRequest(await newUser(), maker.key, { amount: 10n });
  expect(await foundWithEvents(maker.userId, false)).toEqual([]);
  // A Worker's clock is ahead or behind, and a command waits.
  for (const lead of [-61_500, 59_000]) {
    const sent = command.placeQuote(maker, request_id, 500_000);
    const quote = { ...sent, quoteId: uuidv7(Date.now() + lead) };
    expect(await submit(quote)).toMatchObject({ ok: true });
    await submit(quote);
    expect(await foundWithEvents(maker.userId, false)).toEqual([]);
  }
});

it("reports a deposit whose transfer has another amount", async () => {
  const { userId, deposit } = await holder();
  await tamper(
    "deposits_credited",
    sql`UPDATE deposits SET amount = '101' WHERE deposit_id = ${uuid(deposit.depositId)}`,
  );
  const differences = await found(userId, true);
  expect(differences.map((one) => one.detail.replace(/^.* is /, "")).toSorted()).toEqual([
    "missing",
    "unexpected",
  ]);
  await tamper(
    "deposits_credited",
    sql`UPDATE deposits SET amount = '100' WHERE deposit_id = ${uuid(deposit.depositId)}`,
  );
});

it("reports a match whose cost does not follow its price", async () => {
  const { requester, quote } = await quotedMarket({ price: 500_001 });
  const match = matchOf(await submit(command.accept(requester, quote.quote_id)));
  expect(await found(requester.userId, true)).toEqual([]);
  await tamper(
    "matches_update",
    sql`UPDATE matches SET price = 600001 WHERE match_id = ${uuid(match.match_id)}`,
  );
  expect((await found(requester.userId, true)).map((one) => [one.check, one.amount])).toEqual([
    ["terms_mismatch", "-1"],
  ]);
  await tamper(
    "matches_update",
    sql`UPDATE matches SET price = 500001 WHERE match_id = ${uuid(match.match_id)}`,
  );
});

it("raises one alert that stays open until it is resolved", async () => {
  const { userId, key } = await holder();
  const id = await account(userId, key);
  await tamper(
    "accounts_update",
    sql`UPDATE accounts SET balance = balance + 7 WHERE account_id = ${id}`,
  );
  await found(userId, true);
  await tamper(
    "accounts_update",
    sql`UPDATE accounts SET balance = balance - 7 WHERE account_id = ${id}`,
  );
  expect(await found(userId, true)).toHaveLength(1);
  const open = await all<{ subject: string }>(
    db,
    sql`SELECT subject FROM alerts
      WHERE kind = 'reconciliation' AND resolved_at IS NULL AND subject LIKE ${`%${userId}%`}`,
  );
  expect(open).toHaveLength(1);
  await answerAlert("reconciliation", open[0]?.subject ?? "", { db });
  expect(await found(userId, true)).toEqual([]);
});

it("concurrent reconciliations leave one checkpoint", async () => {
  for (let i = 0; i < 3; i++) await holder();
  const { userId } = await holder();
  const results = await Promise.all([
    reconcile(db, { macKeys: settings(), chains: [] }),
    reconcile(db, { macKeys: settings(), chains: [] }),
    reconcile(db, { macKeys: settings(), chains: [] }),
  ]);
  for (const result of results)
    expect(result.differences.filter((one) => one.account.includes(userId))).toEqual([]);
  const head = await first<{ head: number; position: number }>(
    db,
    sql`SELECT (SELECT max(transfer_id) FROM transfers) AS head,
    (SELECT position FROM ledger_checkpoints WHERE scan = 'transfers') AS position`,
  );
  expect(head?.position).toBe(head?.head);
});

// Last, because every later full reconciliation reports these transfers again.
it("lists severe differences first and says when a list is cut", async () => {
  const { userId, key } = await holder(1_000n);
  const [available, pending] = [await account(userId, key), await account(userId, key, "pending")];
  const { first: firstOne } = (await first<{ first: number }>(
    db,
    sql`SELECT max(transfer_id) + 1 AS first FROM transfers`,
  )) ?? {
    first: 0,
  };
  await all(
    db,
    sql`INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
      SELECT ${available}, ${pending}, 1, ${reasonCode("reserve_rfq")}, randomblob(16),
        ${stepCode("reserve")}, 0, (SELECT at FROM commit_groups ORDER BY seq DESC LIMIT 1)
      FROM json_each(${JSON.stringify(Array.from({ length: 150 }, () => 0))})`,
  );
  await tamper(
    "transfers_update",
    sql`UPDATE transfers SET to_balance = -1 WHERE transfer_id = ${firstOne + 149}`,
  );
  const differences = await found("", true);
  await tamper(
    "transfers_update",
    sql`UPDATE transfers SET to_balance = 150 WHERE transfer_id = ${firstOne + 149}`,
  );
  expect(
    differences.some(
      (one) => one.check === "negative_balance" && one.account === `${userId}/available/${key}`,
    ),
  ).toBe(true);
  expect(differences.some((one) => one.account === "all/all/all")).toBe(true);
});

it("expects the close reason in the maker's event and its mask in the requester's", async () => {
  const { quote } = await quotedMarket();
  await cancelAsService(quote.quote_id, "timeout");
  const name = quote.quote_id.replaceAll("-", "");
  expect(await foundWithEvents(name, true)).toEqual([]);
  const { quote: other } = await quotedMarket();
  await cancelAsService(other.quote_id, "protection");
  await tamper(
    "event_runs_update",
    sql`UPDATE event_runs SET events = replace(events, 'protection', 'cancelled')
      WHERE events LIKE '%protection%' AND instr(hex(ids), ${hexOf(other.quote_id)}) > 0`,
  );
  expect(await foundWithEvents(hexOf(other.quote_id).toLowerCase(), true)).toMatchObject([
    { check: "event_mismatch" },
    { check: "event_mismatch" },
  ]);
});

const hexOf = (id: string) => id.replaceAll("-", "").toUpperCase();
