/** The owner turns TOTP on, or moves it, between a thief's check of it and the guard. */
import { env } from "cloudflare:workers";
import { expect, it, vi } from "vitest";
import { changePassword } from "../../src/auth/change-password.ts";
import { changePolicy } from "../../src/auth/change-policy.ts";
import { startTotp } from "../../src/auth/enrol-totp.ts";
import { login } from "../../src/auth/login.ts";
import { mintApiKey } from "../../src/auth/mint-key.ts";
import { removeTotp } from "../../src/auth/remove-totp.ts";
import { stepUp } from "../../src/auth/step-up.ts";
import { approveWithdrawal } from "../../src/custody/approve-withdrawal.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import { createWithdrawalAddress } from "../../src/custody/withdrawal-addresses.ts";
import { Problem } from "../../src/platform/problem.ts";
import { all, readUuid, sql, uuid } from "../../src/platform/sql.ts";
import { apiOf, settings } from "../support/http.ts";
import { newAddress } from "../support/ledger.ts";
import { withStatements } from "../support/slow-database.ts";
import { codeOfStep, enrol, freshCode, presentStep } from "../support/totp.ts";
import {
  newKey,
  newUserWithPassword,
  PASSWORD,
  type TestKey,
  type TestUser,
} from "../support/users.ts";

// scrypt is slow on a busy machine.
vi.setConfig({ testTimeout: 30_000 });

const clientIp = undefined;
const SETTINGS = settings();

type Thief = { readonly user: TestUser; readonly code?: string };
type Verb = {
  /** Text of a statement of the guarded batch. */
  readonly writes: string;
  readonly call: (db: D1Database, thief: Thief) => Promise<unknown>;
};
const requestOf = ({ user, code }: Thief) => ({
  actor: user.actor,
  fields: { password: PASSWORD, totp_code: code },
  clientIp,
});

/** Everything that takes a code if TOTP is on. */
const VERBS: Readonly<Record<string, Verb>> = {
  enrolTotp: {
    writes: "INSERT INTO totp_secrets",
    call: (db, thief) => startTotp(db, SETTINGS, requestOf(thief)),
  },
  removeTotp: {
    writes: "UPDATE totp_secrets SET ends_at",
    call: (db, thief) => removeTotp(db, SETTINGS, requestOf(thief)),
  },
  changePassword: {
    writes: "UPDATE users SET password_hash",
    call: (db, thief) => {
      const { fields, ...request } = requestOf(thief);
      const changed = { ...fields, new_password: "the password of a thief" };
      return changePassword(db, SETTINGS, { ...request, fields: changed, revokeKeys: false });
    },
  },
  setPolicy: {
    writes: "INSERT INTO account_policies",
    call: (db, thief) =>
      changePolicy(db, SETTINGS, { ...requestOf(thief), change: { withdraw_listed_only: false } }),
  },
  createWithdrawalAddress: {
    writes: "INSERT INTO withdrawal_addresses",
    call: async (db, thief) => {
      const { actor } = await stepUp(db, SETTINGS, requestOf(thief));
      const entry = { chain: "local", address: newAddress(), label: "thief" };
      return createWithdrawalAddress(db, SETTINGS, { actor, ip: clientIp, ...entry });
    },
  },
  createApiKey: {
    writes: "INSERT INTO api_keys",
    call: (db, { user, code }) =>
      mintApiKey(db, SETTINGS, {
        actor: user.actor,
        ip: clientIp,
        totpCode: code,
        key: {
          label: "thief",
          scopes: ["trade"],
          expiresAt: null,
          allowedIps: null,
          limits: null,
          requireIdempotency: false,
        },
      }),
  },
};
const LOGIN: Verb = {
  writes: "INSERT INTO login_networks",
  call: (db, { user, code }) => {
    const credentials = { email: user.email, password: PASSWORD, totp_code: code };
    return login(db, SETTINGS, { ...credentials, ip: "203.0.113.9" });
  },
};
const approveWith = (key: TestKey): Verb => ({
  writes: "UPDATE withdrawals",
  call: async (db, thief) => {
    const { fields, actor } = requestOf(thief);
    const withdrawalId = await waitingWithdrawal(thief.user, key);
    return approveWithdrawal(db, SETTINGS, { actor, fields, withdrawalId, ip: clientIp });
  },
});

/** A policy lets every withdrawal of the user wait for approval. */
async function waitingWithdrawal(user: TestUser, { actor }: TestKey): Promise<string> {
  await all(
    env.DB,
    sql`INSERT INTO account_policies (user_id, active_from, version, sessions_trade,
        withdraw_listed_only, withdraw_approval_above)
      VALUES (${uuid(user.userId)}, 0, 1, 1, 0, 0)`,
  );
  const terms = { clientWithdrawalId: "w", amount: 10n, toAddress: newAddress() };
  const { row } = await withdraw(
    env.DB,
    { ...SETTINGS, WITHDRAWAL_MIN_UNITS: 1n },
    { actor, ip: clientIp, terms: { ...terms, chain: "local", asset: "usdc" } },
  );
  return readUuid(row.withdrawal_id);
}

/** What the guarded batches of the user have done. */
async function effectsOf({ userId }: TestUser) {
  return all<{ kind: string }>(
    env.DB,
    sql`SELECT kind FROM audit_events WHERE user_id = ${uuid(userId)} ORDER BY audit_seq`,
  );
}

/**
 * Calls the verb, while the owner changes TOTP just before its guard. Returns the outcome, and what
 * the verb has done after the owner's change.
 */
async function raced(verb: Verb, thief: Thief, ownerChanges: () => Promise<unknown>) {
  const before: { effects?: readonly object[] } = {};
  const slow = withStatements(env.DB, async (texts) => {
    if (before.effects !== undefined || !texts.some((text) => text.includes(verb.writes))) return;
    before.effects = [];
    await ownerChanges();
    before.effects = await effectsOf(thief.user);
  });
  const outcome = await verb.call(slow, thief).then(
    () => "ok",
    (error: unknown) => {
      if (error instanceof Problem) return error.data.code;
      throw error;
    },
  );
  const { effects = [] } = before;
  expect(effects).toContainEqual({ kind: "totp_enabled" });
  return { outcome, done: (await effectsOf(thief.user)).slice(effects.length) };
}

it.each(Object.entries(VERBS))(
  "%s takes a code if TOTP is turned on before its guard",
  async (_, verb) => {
    const user = await newUserWithPassword();
    const { outcome, done } = await raced(verb, { user }, () => enrol(user));
    expect([outcome, done]).toEqual(["totp_required", []]);
  },
);

it("a login does not issue a session if TOTP is turned on before its guard", async () => {
  const user = await newUserWithPassword();
  const { outcome, done } = await raced(LOGIN, { user }, () => enrol(user));
  expect([outcome, done]).toEqual(["login_failed", []]);
});

/** Moves TOTP to another device, with a code of the present one. */
async function move(user: TestUser, secret: string): Promise<string> {
  const body = { password: PASSWORD, totp_code: await freshCode(user, secret) };
  const { json } = await apiOf(user).post("/auth/totp", body);
  const code = codeOfStep(json["secret"], presentStep());
  await apiOf(user).post("/auth/confirm-totp", { totp_code: code });
  return json["secret"];
}

/** A thief who used a code of the owner's authenticator, which is then replaced. */
async function racedByMove(user: TestUser, verb: Verb) {
  const { secret } = await enrol(user);
  const thief = { user, code: await freshCode(user, secret) };
  return raced(verb, thief, () => move(user, secret));
}

it.each(Object.entries(VERBS))(
  "%s takes no code of an authenticator that is replaced before its guard",
  async (_, verb) => {
    const { outcome, done } = await racedByMove(await newUserWithPassword(), verb);
    expect([outcome, done]).toEqual(["totp_invalid", []]);
  },
);

it("an approval takes no code of an authenticator that is replaced before its guard", async () => {
  const user = await newUserWithPassword({ usdc: 100n });
  const verb = approveWith(await newKey(user));
  const { outcome, done } = await racedByMove(user, verb);
  expect([outcome, done]).toEqual(["totp_invalid", []]);
});

it("the owner's authenticator stays valid if a thief began an enrolment before it", async () => {
  const user = await newUserWithPassword();
  const owner = { secret: "" };
  await raced(VERBS["enrolTotp"]!, { user }, async () => {
    owner.secret = (await enrol(user)).secret;
  });
  const body = { password: PASSWORD, totp_code: await freshCode(user, owner.secret) };
  expect((await apiOf(user).post("/auth/totp", body)).status).toBe(201);
});

it("a code that was used counts although TOTP is removed before the guard", async () => {
  const user = await newUserWithPassword();
  const { secret } = await enrol(user);
  const thief = { user, code: await freshCode(user, secret) };
  const { outcome, done } = await raced(VERBS["setPolicy"]!, thief, () =>
    all(env.DB, sql`UPDATE totp_secrets SET ends_at = 1 WHERE user_id = ${uuid(user.userId)}`),
  );
  expect([outcome, done]).toEqual(["ok", [{ kind: "policy_changed" }]]);
});
