/** An operator's daily questions, one command each. */
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { alertLateWithdrawals } from "../../src/custody/payer/alert-late.ts";
import { clearAlert, raiseAlert } from "../../src/platform/alert.ts";
import { config } from "../../src/platform/config.ts";
import { all, blob, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { insertDeposit, insertWithdrawal, newAddress, randomHex } from "../support/ledger.ts";
import { openMarket, placeQuote } from "../support/market.ts";
import { apiOf } from "../support/http.ts";
import { orderOf, sendOrder } from "../support/operator.ts";
import { newUser } from "../support/users.ts";
import { answerAlert } from "../support/pager.ts";
import { SECRETS } from "../support/receiver.ts";

const execute = (line: string, options: Record<string, string> = {}) =>
  sendOrder(orderOf(line.split(" "), options));

async function listed(line: string, options: Record<string, string>) {
  const { ok, result, problem } = await execute(line, options);
  expect({ ok, problem }).toEqual({ ok: true, problem: undefined });
  return result;
}

describe("withdrawals show", () => {
  const shown = async (withdrawalId: string) =>
    (await listed("withdrawals show", { id: withdrawalId }))[0];

  it("finds a withdrawal by any of its names, with its owner and its age", async () => {
    const { userId, email } = await newUser();
    const { withdrawalId } = await insertWithdrawal(userId);
    const hash = randomHex(32);
    await all(
      env.DB,
      sql`UPDATE withdrawals SET transaction_hash = ${blob(hash)}, status = 'submitted'
        WHERE withdrawal_id = ${uuid(withdrawalId)}`,
    );
    for (const name of [{ id: withdrawalId }, { "client-id": withdrawalId }, { tx: hash }])
      expect(await listed("withdrawals show", name)).toMatchObject([
        { withdrawal_id: withdrawalId, email, age: expect.stringMatching(/ d /) as string },
      ]);
    expect(await execute("withdrawals show", { id: uuidv7() })).toMatchObject({
      problem: { code: "withdrawal_unknown" },
    });
    for (const options of [{}, { id: withdrawalId, tx: hash }, { tx: "0x12" }])
      expect(await execute("withdrawals show", options)).toMatchObject({
        problem: { code: "invalid_request" },
      });
  });

  it("says why it waits, and the command that goes on", async () => {
    const { userId } = await newUser();
    const chain = `c${uuidv7()}`;
    const { withdrawalId } = await insertWithdrawal(userId, { chain });
    expect(await shown(withdrawalId)).toMatchObject({
      cause: "it waits for the payer's next round",
      next: null,
    });
    await all(
      env.DB,
      sql`UPDATE withdrawals SET not_before = 4e12 WHERE withdrawal_id = ${uuid(withdrawalId)}`,
    );
    expect(await shown(withdrawalId)).toMatchObject({
      next: `npm run operator -- withdrawals retry --id ${withdrawalId} --env test`,
    });
    await raiseAlert(env.DB, "gas_low", chain, "holds 1 wei");
    expect(await shown(withdrawalId)).toMatchObject({
      cause: "gas_low: holds 1 wei",
      next: "npm run operator -- chain status --env test",
      alerts: [{ kind: "gas_low" }],
    });
    await raiseAlert(env.DB, "withdrawal_parked", withdrawalId, "over the limit");
    expect(await shown(withdrawalId)).toMatchObject({
      cause: "withdrawal_parked: over the limit",
      next: `npm run operator -- withdrawals retry --id ${withdrawalId} --env test`,
      alerts: [{ kind: "withdrawal_parked" }, { kind: "gas_low" }],
    });
    await execute("user freeze", { "user-id": userId });
    expect(await shown(withdrawalId)).toMatchObject({
      cause: "its owner is frozen",
      next: `npm run operator -- user unfreeze --user-id ${userId} --env test`,
    });
    await clearAlert(env.DB, "gas_low", chain);
  });

  it("says that an ended or an unapproved one waits for nobody of ours", async () => {
    const { userId } = await newUser();
    const ended = await insertWithdrawal(userId, { status: "settled" });
    expect(await shown(ended.withdrawalId)).toMatchObject({ cause: "it has ended: settled" });
    const waits = await insertWithdrawal(userId, { status: "awaiting_approval" });
    expect(await shown(waits.withdrawalId)).toMatchObject({
      cause: expect.stringContaining("its owner must approve it") as string,
    });
  });
});

it("lists deposits and withdrawals of one user, with the email, and since an instant", async () => {
  const [{ userId, email }, other] = await Promise.all([newUser(), newUser()]);
  for (const owner of [userId, other.userId]) {
    await insertWithdrawal(owner);
    await insertDeposit(owner, { chain: "local", asset: "usdc", amount: 1n, status: "orphaned" });
  }
  for (const line of ["withdrawals list", "deposits list"]) {
    expect(await listed(line, { email })).toMatchObject([{ user_id: userId, email }]);
    expect(await listed(line, { email, since: "5m" })).toHaveLength(1);
    expect(await listed(line, { email, since: "2199-01-01T00:00:00Z" })).toEqual([]);
    expect(await execute(line, { since: "yesterday" })).toMatchObject({
      problem: { code: "invalid_request" },
    });
  }
});

it("lists open alerts with their age, and closed ones when asked", async () => {
  const subject = uuidv7();
  await raiseAlert(env.DB, "gas_low", subject, "holds 1 wei");
  const about = async (options: Record<string, string>) =>
    (await listed("alerts list", { kind: "gas_low", limit: "500", ...options })).filter(
      (alert) => alert["subject"] === subject,
    );
  expect(await about({})).toMatchObject([
    {
      kind: "gas_low",
      subject,
      age: expect.stringMatching(/s$/) as string,
      closed_at: null,
      next: "npm run operator -- chain status --env test",
    },
  ]);
  await clearAlert(env.DB, "gas_low", subject);
  expect(await about({})).toEqual([]);
  expect(await about({ all: "true" })).toHaveLength(1);
  expect(await about({ all: "true", since: "2199-01-01T00:00:00Z" })).toEqual([]);
});

it("lists what operators ordered with its options, without a password", async () => {
  const { email } = await newUser();
  await execute("user freeze", { email });
  await execute("user create", { email: `${uuidv7()}@x.example`, password: "a-long-password-1" });
  const events = await listed("audit list", { kind: "operator_order" });
  expect(events[1]?.["order"]).toBe(`user freeze --email ${email}`);
  expect(events[0]?.["order"]).toMatch(/^user create --email [^ ]+$/);
});

it("shows a user's records of any age by pages", async () => {
  const { requester, maker, request } = await openMarket({
    requester: { usdc: 10_000_000n },
    maker: { token: 10_000_000n },
  });
  const { quote_id } = await placeQuote(maker, request.request_id, 500_000);
  await apiOf(requester).post("/rfq/accept", { quote_id });
  const page = async (kind: string, options: Record<string, string>) => {
    const { result: items, next_cursor } = await execute(`history ${kind}`, options);
    return { items, next_cursor };
  };
  // The archive has none yet.
  const none = { items: [], next_cursor: null };
  expect(await page("quotes", { email: maker.email })).toEqual(none);
  expect(await page("requests", { email: requester.email })).toEqual(none);
  expect((await page("matches", { email: maker.email })).items).toHaveLength(1);
  expect(await execute("history trades", { email: maker.email })).toMatchObject({
    problem: { code: "invalid_request" },
  });
});

it("an unmined transaction raises an alert until it is mined", async () => {
  const [chain] = config(env).CHAINS;
  if (chain === undefined) throw new Error("no chain");
  const settings = { CHAINS: [{ ...chain, chain: `c${uuidv7()}` }] };
  const [{ chain: name }] = settings.CHAINS as [typeof chain];
  const openAlerts = () => listed("alerts list", { kind: "payment_unmined", limit: "500" });
  const made = async (nonce: number, age: number) =>
    all(
      env.DB,
      sql`INSERT INTO chain_transactions (transaction_id, chain, sender, nonce, kind, to_address,
          data, gas_limit, status, made_group, made_at)
        VALUES (${uuid(uuidv7())}, ${name}, ${blob(newAddress())}, ${nonce}, 'pay',
          ${blob(newAddress())}, x'', 1, 'open', 0, ${Date.now() - age})`,
    );
  await made(8, 30_000);
  await alertLateWithdrawals(env.DB, settings);
  expect((await openAlerts()).filter(({ subject }) => subject === name)).toEqual([]);
  await made(7, 700_000);
  await alertLateWithdrawals(env.DB, settings);
  expect((await openAlerts()).filter(({ subject }) => subject === name)).toMatchObject([
    { detail: expect.stringContaining("transaction 7 (pay)") as string },
  ]);
  const end = async () => {
    await all(env.DB, sql`UPDATE chain_transactions SET status = 'unused' WHERE chain = ${name}`);
    await alertLateWithdrawals(env.DB, settings);
  };
  await answerAlert("payment_unmined", name, { end });
});

it("`alerts test` calls whom an alert would call, if anybody", async () => {
  expect(await execute("alerts test")).toMatchObject({ problem: { code: "nobody_called" } });
  const receiver = { ALERT_URL: "https://pager.example", ALERT_SECRETS: JSON.stringify(SECRETS) };
  const { result } = await sendOrder(orderOf(["alerts", "test"]), receiver);
  expect(result).toEqual({ kind: "pager_test", subject: "test" });
  await answerAlert("pager_test", "test");
});
