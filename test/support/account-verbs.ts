/**
 * Verbs that change an account, by the operation id of their route, as who-may.test.ts tries them.
 */
import { env } from "cloudflare:workers";
import type { AuditKind } from "../../src/audit/event-kinds.ts";
import { changePassword } from "../../src/auth/change-password.ts";
import { changePolicy } from "../../src/auth/change-policy.ts";
import { endSessions } from "../../src/auth/end-sessions.ts";
import { confirmTotp, startTotp } from "../../src/auth/enrol-totp.ts";
import { freezeOwnAccount } from "../../src/auth/freeze-user.ts";
import { mintApiKey } from "../../src/auth/mint-key.ts";
import { cancelTotpRemoval, removeTotp } from "../../src/auth/remove-totp.ts";
import { revokeOwnApiKey } from "../../src/auth/revoke-key.ts";
import { approveAfterStepUp } from "../../src/custody/approve-withdrawal.ts";
import { cancelWithdrawal } from "../../src/custody/cancel-withdrawal.ts";
import { createDepositAddress } from "../../src/custody/deposit-address.ts";
import { withdraw } from "../../src/custody/withdraw.ts";
import {
  createWithdrawalAddress,
  removeWithdrawalAddress,
} from "../../src/custody/withdrawal-addresses.ts";
import {
  createEndpoint,
  removeEndpoint,
  rotateSecret,
} from "../../src/feeds/webhooks/endpoints.ts";
import {
  type Actor,
  type CheckedActor,
  checkedActor,
  type SessionActor,
} from "../../src/platform/actor.ts";
import { config, defaultChain } from "../../src/platform/config.ts";
import { all, readUuid, sql, uuid } from "../../src/platform/sql.ts";
import { newAddress } from "./ledger.ts";
import { codeOfStep, enrol, freshCode, presentStep } from "./totp.ts";
import { newKey, PASSWORD, type TestKey, type TestUser } from "./users.ts";

type AccountVerb = {
  /** Credentials that may call it. */
  readonly by: readonly ("session" | "key")[];
  /** Of its audit event. */
  readonly kind: AuditKind;
  /** What the call needs. The user has a password. */
  readonly prepare?: (user: TestUser, key: TestKey | undefined) => Promise<string>;
  readonly call: (actor: Actor, prepared: string) => Promise<unknown>;
};
/** The table's callers pass what `prepare` returned, which is undefined without it. */
type Row = Omit<AccountVerb, "call"> & {
  readonly call: (actor: Actor, prepared: string | undefined) => Promise<unknown>;
};

const db = env.DB;
const settings = config(env);
const ip = undefined;
const clientIp = undefined;
const fields = { password: PASSWORD };
const ADDRESS = { chain: "local", label: "cold" };

/** The routes of these verbs admit sessions only. */
function session(actor: Actor): SessionActor {
  const { credential } = actor;
  if (credential.kind !== "session") throw new Error("the verb takes a session");
  return { ...actor, credential };
}

/** A session after a step-up of an account without TOTP. */
const checked = (actor: Actor): CheckedActor => checkedActor(session(actor), null);

const newEndpoint = (actor: CheckedActor) => ({
  actor,
  ip,
  url: "http://127.0.0.1:9/",
  types: ["match.created"],
  prepare: async () => {},
});

async function endpointOf({ actor }: TestUser): Promise<string> {
  return (await createEndpoint(db, settings, newEndpoint(checked(actor)))).endpoint_id;
}

async function queued(user: TestUser, key: TestKey | undefined): Promise<string> {
  const { actor } = key ?? (await newKey(user));
  const terms = { clientWithdrawalId: "w", amount: 10n, toAddress: newAddress() };
  const { row } = await withdraw(
    db,
    { ...settings, WITHDRAWAL_MIN_UNITS: 1n },
    { actor, ip, terms: { ...terms, chain: "local", asset: "usdc" } },
  );
  return readUuid(row.withdrawal_id);
}

async function waiting(user: TestUser): Promise<string> {
  await all(
    db,
    sql`INSERT INTO account_policies (user_id, active_from, version, sessions_trade,
        withdraw_listed_only, withdraw_approval_above)
      VALUES (${uuid(user.userId)}, 0, 1, 1, 0, 0)`,
  );
  return queued(user, undefined);
}

/** Turns TOTP on. Returns its secret. */
const withTotp = async (user: TestUser) => (await enrol(user)).secret;

function rowOf({ call, ...verb }: AccountVerb): Row {
  return { ...verb, call: (actor, prepared = "") => call(actor, prepared) };
}

const VERBS: Readonly<Record<string, AccountVerb>> = {
  createApiKey: {
    by: ["session"],
    kind: "api_key_created",
    call: (actor) =>
      mintApiKey(db, settings, {
        actor: session(actor),
        ip,
        key: {
          label: "who",
          scopes: ["trade"],
          expiresAt: null,
          allowedIps: null,
          limits: null,
          requireIdempotency: false,
        },
      }),
  },
  // A key revokes only itself: api-key.test.ts.
  revokeApiKey: {
    by: ["session"],
    kind: "api_key_revoked",
    prepare: async (user) => (await newKey(user, ["read"])).apiKeyId,
    call: (actor, apiKeyId) => revokeOwnApiKey(db, { actor, apiKeyId, ip }),
  },
  endSessions: {
    by: ["session"],
    kind: "sessions_ended",
    call: (actor) => endSessions(db, { actor: session(actor), revokeKeys: false, ip }),
  },
  changePassword: {
    by: ["session"],
    kind: "password_changed",
    call: (actor) =>
      changePassword(db, settings, {
        actor: session(actor),
        fields: { ...fields, new_password: "another long password" },
        revokeKeys: false,
        clientIp,
      }),
  },
  setPolicy: {
    by: ["session"],
    kind: "policy_changed",
    call: (actor) =>
      changePolicy(db, settings, {
        actor: session(actor),
        change: { sessions_trade: false },
        fields,
        clientIp,
      }),
  },
  enrolTotp: {
    by: ["session"],
    kind: "totp_requested",
    call: (actor) => startTotp(db, settings, { actor: session(actor), fields, clientIp }),
  },
  confirmTotp: {
    by: ["session"],
    kind: "totp_enabled",
    prepare: async ({ actor }) =>
      (await startTotp(db, settings, { actor, fields, clientIp })).secret,
    call: (actor, secret) =>
      confirmTotp(db, settings, {
        actor: session(actor),
        code: codeOfStep(secret, presentStep()),
        clientIp,
      }),
  },
  removeTotp: {
    by: ["session"],
    kind: "totp_removal_requested",
    prepare: async (user) => {
      const secret = await withTotp(user);
      return freshCode(user, secret);
    },
    call: (actor, totp_code) =>
      removeTotp(
        db,
        { ...settings, AUTH_SECURITY_DELAY_SECS: 60 },
        { actor: session(actor), fields: { ...fields, totp_code }, clientIp },
      ),
  },
  cancelTotpRemoval: {
    by: ["session"],
    kind: "totp_removal_cancelled",
    prepare: async (user) => {
      await withTotp(user);
      await all(
        db,
        sql`UPDATE totp_secrets SET ends_at = ${Date.now() + 60_000}
          WHERE user_id = ${uuid(user.userId)}`,
      );
      return "";
    },
    call: (actor) => cancelTotpRemoval(db, { actor: session(actor), clientIp }),
  },
  freezeAccount: {
    by: ["session", "key"],
    kind: "account_frozen",
    call: (actor) => freezeOwnAccount(db, { actor, clientIp }),
  },
  createDepositAddress: {
    by: ["session", "key"],
    kind: "deposit_address_created",
    call: (actor) =>
      createDepositAddress(db, settings, { actor, chain: defaultChain(settings), ip }),
  },
  createWithdrawalAddress: {
    by: ["session"],
    kind: "withdrawal_address_created",
    call: (actor) =>
      createWithdrawalAddress(db, settings, {
        ...ADDRESS,
        actor: checked(actor),
        ip,
        address: newAddress(),
      }),
  },
  removeWithdrawalAddress: {
    by: ["session"],
    kind: "withdrawal_address_removed",
    prepare: async ({ actor }) => {
      const address = newAddress();
      const entry = { ...ADDRESS, actor: checked(actor), ip, address };
      return (await createWithdrawalAddress(db, settings, entry)).address_id;
    },
    call: (actor, addressId) =>
      removeWithdrawalAddress(db, { actor: session(actor), ip, addressId }),
  },
  approveWithdrawal: {
    by: ["session"],
    kind: "withdrawal_approved",
    prepare: waiting,
    call: (actor, withdrawalId) =>
      approveAfterStepUp(db, settings, { actor: checked(actor), withdrawalId, ip }),
  },
  createWebhook: {
    by: ["session"],
    kind: "webhook_created",
    call: (actor) => createEndpoint(db, settings, newEndpoint(checked(actor))),
  },
  rotateWebhookSecret: {
    by: ["session"],
    kind: "webhook_secret_rotated",
    prepare: endpointOf,
    call: (actor, endpointId) =>
      rotateSecret(db, settings, { actor: checked(actor), ip, endpointId }),
  },
  removeWebhook: {
    by: ["session"],
    kind: "webhook_removed",
    prepare: endpointOf,
    call: (actor, endpointId) => removeEndpoint(db, { actor: session(actor), ip, endpointId }),
  },
  cancelWithdrawal: {
    by: ["session", "key"],
    kind: "withdrawal_cancelled",
    prepare: queued,
    call: (actor, id) => cancelWithdrawal(db, { actor, id: { withdrawal_id: id }, ip }),
  },
};

export const ACCOUNT_VERBS: Readonly<Record<string, Row>> = Object.fromEntries(
  Object.entries(VERBS).map(([operationId, verb]) => [operationId, rowOf(verb)]),
);
