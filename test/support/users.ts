/** Users of a test's own and their credentials. */
import { env } from "cloudflare:workers";
import { approveApiKey } from "../../src/auth/approve-key.ts";
import {
  createOperatorApiKey,
  type MintedKey,
  mintApiKey,
  type NewKey,
} from "../../src/auth/mint-key.ts";
import type { KeyLimits } from "../../src/auth/key-limits.ts";
import { KEY_SEAL_COLUMNS, type SealedKey, sealKey } from "../../src/auth/key-seal.ts";
import { hashPassword } from "../../src/auth/password.ts";
import { issueSession } from "../../src/auth/session.ts";
import type { ApiKeyActor, Scope, SessionActor } from "../../src/platform/actor.ts";
import { NOW } from "../../src/platform/commit.ts";
import { config, type Config } from "../../src/platform/config.ts";
import { all, first, select, sql, uuid } from "../../src/platform/sql.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import { fund } from "./ledger.ts";

export type TestUser = {
  readonly userId: string;
  readonly email: string;
  /** The access token of a session with the scopes read and trade. */
  readonly token: string;
  /** That session as the verbs and guards see it. */
  readonly actor: SessionActor;
};

export type TestKey = {
  readonly apiKeyId: string;
  readonly secret: string;
  /** The key as the verbs and guards see it. */
  readonly actor: ApiKeyActor;
};

/**
 * A user with these funds, by asset. There is no password, because scrypt would cost each test a
 * fifth of a second. Tests of the login register their users.
 */
export async function newUser(
  funds: Readonly<Record<string, bigint | undefined>> = {},
  db: D1Database = env.DB,
): Promise<TestUser> {
  const userId = uuidv7();
  const email = `${userId}@test.example`;
  // The database's clock: a `*.clock.test.ts` may have moved it days ahead.
  const [inserted] = await all<{ at: number }>(
    db,
    sql`INSERT INTO users (user_id, email, password_hash, session_epoch, created_at)
      VALUES (${uuid(userId)}, ${email}, '', 0, ${NOW}) RETURNING created_at AS at`,
  );
  const issuedAtMs = inserted!.at;
  const settings = config(env);
  const session = await issueSession(settings, { userId, epoch: 0 }, issuedAtMs);
  const { accessToken, expiresAtMs } = session;
  for (const [asset, amount = 0n] of Object.entries(funds))
    if (amount > 0n) await fund(userId, asset, amount, { db });
  return {
    userId,
    email,
    token: accessToken,
    actor: {
      userId,
      scopes: settings.AUTH_SESSION_SCOPES,
      credential: { kind: "session", epoch: 0, issuedAtMs, expiresAtMs },
    },
  };
}

export const PASSWORD = "correct horse battery staple";
let passwordHash: Promise<string> | undefined;

/** A user whose password is `PASSWORD`. They share one hash, because scrypt is slow. */
export async function newUserWithPassword(
  funds: Readonly<Record<string, bigint | undefined>> = {},
): Promise<TestUser> {
  const user = await newUser(funds);
  passwordHash ??= hashPassword(PASSWORD);
  await all(
    env.DB,
    sql`UPDATE users SET password_hash = ${await passwordHash}
      WHERE user_id = ${uuid(user.userId)}`,
  );
  return user;
}

type KeyOptions = {
  readonly expiresAt?: number;
  readonly allowedIps?: string[];
  readonly delaySecs?: number;
  readonly limits?: KeyLimits;
  readonly requireIdempotency?: boolean;
  /** If TOTP is on and the key may withdraw. */
  readonly totpCode?: string;
};
const YEAR_MS = 365 * 86_400_000;

/**
 * An API key with these scopes: one that withdraws is asked for by the user and approved by an
 * operator, others are made by an operator.
 */
export async function newKey(
  { userId }: { readonly userId: string },
  scopes: readonly Scope[] = ["read", "trade", "withdraw"],
  more: KeyOptions = {},
): Promise<TestKey> {
  const delayed = { ...config(env), AUTH_OPERATOR_KEY_DELAY_SECS: more.delaySecs ?? 0 };
  const key = {
    label: "test",
    expiresAt: more.expiresAt ?? null,
    allowedIps: more.allowedIps ?? null,
    limits: more.limits ?? null,
    requireIdempotency: more.requireIdempotency ?? false,
  };
  const reading = scopes.filter((scope) => scope !== "withdraw");
  const { api_key_id: apiKeyId, secret } =
    reading.length < scopes.length
      ? await approvedKey(userId, { ...key, scopes }, { delayed, totpCode: more.totpCode })
      : await createOperatorApiKey(env.DB, delayed, {
          userId,
          operator: "test",
          key: { ...key, scopes: reading },
        });
  return { apiKeyId, secret, actor: { userId, scopes, credential: { kind: "api_key", apiKeyId } } };
}

/** The user asks for the key with a session, and an operator approves it. */
async function approvedKey(
  userId: string,
  key: NewKey,
  { delayed, totpCode }: { delayed: Config; totpCode: string | undefined },
): Promise<MintedKey> {
  const user = await first<{ epoch: number }>(
    env.DB,
    sql`SELECT session_epoch AS epoch FROM users WHERE user_id = ${uuid(userId)}`,
  );
  const inAYear = Date.now() + YEAR_MS;
  const minted = await mintApiKey(env.DB, delayed, {
    actor: {
      userId,
      scopes: delayed.AUTH_SESSION_SCOPES,
      credential: {
        kind: "session",
        epoch: user?.epoch ?? 0,
        issuedAtMs: Date.now(),
        expiresAtMs: inAYear,
      },
    },
    ip: undefined,
    key: {
      ...key,
      expiresAt: key.expiresAt ?? inAYear,
      allowedIps: key.allowedIps ?? ["0.0.0.0/0", "::/0"],
    },
    totpCode,
    requestApproval: true,
  });
  await approveApiKey(env.DB, delayed, { apiKeyId: minted.api_key_id, operator: "test" });
  return minted;
}

/** Changes when a key has its scopes, with the seal of a key that was made so. */
export async function setActiveFrom(key: TestKey, activeFrom: number | null): Promise<void> {
  const { MASTER_KEYS } = config(env);
  const mine = sql`api_key_id = ${uuid(key.apiKeyId)}`;
  await all(env.DB, sql`UPDATE api_keys SET active_from = ${activeFrom} WHERE ${mine}`);
  const row = await first<SealedKey>(
    env.DB,
    sql`SELECT ${select(KEY_SEAL_COLUMNS)} FROM api_keys k WHERE k.${mine}`,
  );
  if (row === undefined) throw new Error("there is no such key");
  const { sealed } = await sealKey(MASTER_KEYS, key.secret, row);
  await all(env.DB, sql`UPDATE api_keys SET secret_sealed = ${sealed} WHERE ${mine}`);
}
