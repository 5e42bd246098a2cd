/** A change of one account leaves everything of every other account as it is. */
import { env } from "cloudflare:workers";
import { beforeAll, expect, it } from "vitest";
import { freezeUser, unfreezeUser } from "../../src/auth/freeze-user.ts";
import { resetTotp, setPassword } from "../../src/auth/reset-account.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { ACCOUNT_VERBS } from "../support/account-verbs.ts";
import { everythingOf } from "../support/everything-of.ts";
import { settings } from "../support/http.ts";
import { newAddress } from "../support/ledger.ts";
import { enrol } from "../support/totp.ts";
import { newKey, newUserWithPassword, type TestUser } from "../support/users.ts";

const db = env.DB;
const LATER = Date.now() + 3_600_000;
const FUNDS = { usdc: 1_000n };

/** Has one of everything that can wait or be active. */
let bystander: TestUser;
beforeAll(async () => {
  bystander = await newUserWithPassword(FUNDS);
  const user = uuid(bystander.userId);
  await newKey(bystander, ["read", "trade"]);
  for (const verb of ["removeWithdrawalAddress", "removeWebhook", "approveWithdrawal"])
    await ACCOUNT_VERBS[verb]?.prepare?.(bystander, undefined);
  await enrol(bystander);
  for (const statement of [
    sql`INSERT INTO totp_secrets (user_id, status, secret_sealed, master_key_id, last_step,
        wrong_codes, created_at, ends_at)
      SELECT user_id, 'pending', secret_sealed, master_key_id, 0, 0, created_at, ${LATER}
      FROM totp_secrets WHERE user_id = ${user}`,
    sql`UPDATE totp_secrets SET ends_at = ${LATER}, next_sealed = 'x', next_master_key_id = 'x',
      next_from = ${LATER} WHERE user_id = ${user} AND status = 'confirmed'`,
    sql`INSERT INTO recovery_codes (user_id, code_hash, active_from)
      VALUES (${user}, randomblob(32), ${LATER})`,
    sql`UPDATE recovery_codes SET ends_at = ${LATER}
      WHERE user_id = ${user} AND active_from IS NULL`,
    sql`INSERT INTO email_changes (user_id, audit_event_id, email, password_hash, active_from)
      VALUES (${user}, randomblob(16), ${`new-${bystander.email}`}, '', ${LATER})`,
    sql`INSERT INTO account_policies (user_id, active_from, version, sessions_trade,
        withdraw_listed_only) VALUES (${user}, ${LATER}, 2, 1, 0)`,
    sql`INSERT INTO withdrawal_addresses
        (address_id, user_id, chain, address, label, created_at, active_from)
      VALUES (randomblob(16), ${user}, 'local', unhex(${newAddress().slice(2)}), 'x', 0, ${LATER})`,
  ])
    await all(db, statement);
});

const operator = "test";
const OPERATOR_CALLS: Readonly<Record<string, (userId: string) => Promise<unknown>>> = {
  unfreezeUser: async (userId) => {
    await freezeUser(db, { userId, operator });
    await unfreezeUser(db, { userId, operator });
  },
  setPassword: (userId) =>
    setPassword(db, settings(), { userId, operator, keepKeys: false, passwordHash: "x" }),
  resetTotp: (userId) => resetTotp(db, settings(), { userId, operator, keepKeys: false }),
};

it.each(Object.entries(OPERATOR_CALLS))("the operator's %s", async (_, call) => {
  const user = await newUserWithPassword(FUNDS);
  const [own, others] = [await everythingOf(user.userId), await everythingOf(bystander.userId)];
  expect(others.length).toBeGreaterThan(20);
  await call(user.userId);
  expect(await everythingOf(user.userId)).not.toEqual(own);
  expect(await everythingOf(bystander.userId)).toEqual(others);
});

it.each(Object.entries(ACCOUNT_VERBS))("%s", async (_, verb) => {
  const user = await newUserWithPassword(FUNDS);
  const prepared = await verb.prepare?.(user, undefined);
  const others = await everythingOf(bystander.userId);
  await verb.call(user.actor, prepared);
  expect(await everythingOf(bystander.userId)).toEqual(others);
});
