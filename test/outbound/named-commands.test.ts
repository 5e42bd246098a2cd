/** Each alert reaches an operator, who runs the command that it names and hears that it closed. */
import { createMessageBatch } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { forgetAllCredentials } from "../../src/auth/credential-cache.ts";
import { alertLateWithdrawals } from "../../src/custody/payer/alert-late.ts";
import { handleWithdrawalMessages } from "../../src/custody/payer/wake-payer.ts";
import { type AlertKind, ALERTS } from "../../src/platform/alert-kinds.ts";
import { raiseAlert } from "../../src/platform/alert.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { report } from "../../src/reconcile/difference-alerts.ts";
import { apiOf, settings } from "../support/http.ts";
import { insertWithdrawal } from "../support/ledger.ts";
import { newPager } from "../support/pager.ts";
import { newKey, newUser } from "../support/users.ts";

const db = env.DB;
const asleep = { getByName: () => ({ wake: async () => {} }) };
const resolveAll = () => all(db, sql`UPDATE alerts SET resolved_at = 1 WHERE resolved_at IS NULL`);
beforeAll(resolveAll);
afterAll(resolveAll);

/** Causes an alert that its named command closes here, and returns its subject. */
const CAUSES = {
  key_row_altered: async () => {
    const key = await newKey(await newUser(), ["read"]);
    await all(
      db,
      sql`UPDATE api_keys SET limits = NULL, scopes = 'read,trade'
        WHERE api_key_id = ${uuid(key.apiKeyId)}`,
    );
    forgetAllCredentials();
    expect((await apiOf(key).get("/auth/whoami")).status).toBe(401);
    return key.apiKeyId;
  },
  withdrawal_dead_letter: async () => {
    const id = uuidv7();
    const message = { id, timestamp: new Date(), attempts: 5, body: "poison" };
    const batch = createMessageBatch("rfq-custody-withdrawals-dead", [message]);
    await handleWithdrawalMessages(batch, env);
    return id;
  },
  reconciliation: async () => {
    const account = `it's ${uuidv7()}`;
    await report(db, [{ check: "holdings_short", account, amount: "-1", detail: "" }]);
    return `holdings_short ${account}`;
  },
  withdrawal_altered: () => aboutWithdrawal("withdrawal_altered"),
  withdrawal_parked: () => aboutWithdrawal("withdrawal_parked"),
  // The chain's tests cause these. Here each is only raised.
  deposit_address_altered: () => raised("deposit_address_altered", "local:0x00aa"),
  deposit_missed: () => raised("deposit_missed", "local"),
  deposit_phantom: () => raised("deposit_phantom", "local"),
  deposit_quarantined: () => raised("deposit_quarantined", "local"),
  payment_skipped: () => raised("payment_skipped", "local"),
  payment_terms: () => raised("payment_terms", `local:${uuidv7()}`),
} satisfies Partial<Record<AlertKind, () => Promise<string>>>;

async function raised(kind: AlertKind, subject: string): Promise<string> {
  await raiseAlert(db, kind, subject, "detail");
  return subject;
}

async function aboutWithdrawal(kind: AlertKind): Promise<string> {
  const { userId } = await newUser();
  const { withdrawalId } = await insertWithdrawal(userId, { chain: "local" });
  return raised(kind, withdrawalId);
}

describe.each(Object.entries(CAUSES))("%s", (name, cause) => {
  it("is received, and closes by exactly the command that it names", async () => {
    // Safe cast: a key of the table above.
    const kind = name as keyof typeof CAUSES;
    const pager = await newPager(db);
    const about = { kind, subject: await cause() };
    await pager.expectRaised(about);
    const { problem } = await pager.runNamed(about, { PAYER: asleep });
    expect(problem).toBeUndefined();
    await pager.expectResolved(about);
  });
});

it("chain_removed is received, and closes once the named list is empty", async () => {
  const { userId } = await newUser();
  const chain = `removed-${uuidv7().slice(-12)}`;
  const { withdrawalId } = await insertWithdrawal(userId, { chain });
  const CHAINS = settings().CHAINS;
  const pager = await newPager(db);
  const about = { kind: "chain_removed", subject: chain } as const;
  await alertLateWithdrawals(db, { CHAINS });
  const { result } = await pager.runNamed(about);
  expect(result.map(({ withdrawal_id }) => withdrawal_id)).toContain(withdrawalId);
  await all(
    db,
    sql`UPDATE withdrawals SET status = 'settled' WHERE withdrawal_id = ${uuid(withdrawalId)}`,
  );
  await alertLateWithdrawals(db, { CHAINS });
  await pager.expectResolved(about);
});

/** Their commands need an archive, or several orders (test/archive/). */
const OF_THE_ARCHIVE = new Set(["history_cut", "archive_damaged"]);
const SHOWING = Object.entries(ALERTS).flatMap(([kind, { closes }]) =>
  // Safe cast: a key of the table.
  closes === "itself" && !OF_THE_ARCHIVE.has(kind) ? [kind as AlertKind] : [],
);

it.each(SHOWING)("%s names a command that an operator can run", async (kind) => {
  const pager = await newPager(db);
  const about = { kind, subject: `local:${uuidv7()}` };
  await raiseAlert(db, kind, about.subject, "detail");
  await pager.expectRaised(about);
  const { problem } = await pager.runNamed(about);
  expect(problem).toBeUndefined();
  await all(db, sql`UPDATE alerts SET resolved_at = 1 WHERE subject = ${about.subject}`);
});
