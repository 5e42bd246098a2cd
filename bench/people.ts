/**
 * Users with funds and API keys, inserted directly into D1, because creating them is not measured.
 */
import { reasonCode, stepCode } from "../src/ledger/codes.ts";
import { randomBytes } from "node:crypto";
import { newKeyId } from "../src/auth/mark.ts";
import { hashPassword } from "../src/auth/password.ts";
import { sealKey } from "../src/auth/key-seal.ts";
import { headersOf, importSecret, signWith } from "../packages/client/src/sign.ts";
import { NOW } from "../src/platform/commit.ts";
import type { Expr } from "../src/platform/sql.ts";
import { uuidv7 } from "../src/platform/uuid.ts";
import { httpRequest } from "./load.ts";
import type { BenchStack, Database } from "./stack.ts";

export type Person = {
  readonly userId: string;
  readonly apiKeyId: string;
  readonly secret: string;
  readonly key: CryptoKey;
};

/**
 * Gives each user `units` of every asset from the chain's account, as a deposit does. The triggers
 * move the balances.
 */
export async function makePeople(
  stack: BenchStack,
  count: number,
  assets: readonly string[],
  { units = 10 ** 12, scopes = "read,trade" }: { units?: number; scopes?: string } = {},
): Promise<Person[]> {
  const people: (Person & { sealed: string; masterKeyId: string })[] = [];
  for (let i = 0; i < count; i++) {
    const [userId, apiKeyId, secret] = [
      uuidv7(),
      newKeyId({ ADDRESS_KEY: stack.addressKey }),
      randomBytes(32).toString("base64url"),
    ];
    people.push({
      userId,
      apiKeyId,
      secret,
      key: await importSecret(secret),
      ...(await sealKey(stack.masterKeys, secret, {
        apiKeyId,
        userId,
        scopes,
        limits: null,
        requireIdempotency: 0,
        allowedIps: null,
        activeFrom: 0,
        expiresAt: null,
        mintedBy: "operator",
      })),
    });
  }
  const list = JSON.stringify(
    people.map(({ userId, apiKeyId, sealed, masterKeyId }) => ({
      userId,
      apiKeyId,
      sealed,
      masterKeyId,
    })),
  );
  await stack.db.batch([
    stack.db
      .prepare(
        `INSERT INTO users (user_id, email, password_hash, session_epoch, frozen_at, created_at)
         SELECT unhex(p.value ->> 'userId', '-'), p.value ->> 'userId' || '@bench.example', 'none',
           0, NULL, 0 FROM json_each(?) p`,
      )
      .bind(list),
    stack.db
      .prepare(
        `INSERT INTO api_keys (api_key_id, user_id, label, scopes, limits, secret_sealed, master_key_id,
          require_idempotency, minted_by, active_from, created_at)
         SELECT unhex(p.value ->> 'apiKeyId', '-'), unhex(p.value ->> 'userId', '-'), 'bench',
           ?, NULL, p.value ->> 'sealed',
           p.value ->> 'masterKeyId', 0, 'operator', 0, 0 FROM json_each(?) p`,
      )
      .bind(scopes, list),
  ]);
  if (assets.length > 0)
    await fund(
      stack.db,
      people.map(({ userId }) => userId),
      assets,
      units,
    );
  return people.map(({ userId, apiKeyId, secret, key }) => ({ userId, apiKeyId, secret, key }));
}

/** Users without funds who log in with this password. Returns their email addresses. */
export async function makeLogins(
  stack: BenchStack,
  count: number,
  password: string,
): Promise<string[]> {
  const people = await makePeople(stack, count, []);
  await stack.db
    .prepare(
      `UPDATE users SET password_hash = ?
        WHERE user_id IN (SELECT unhex(value, '-') FROM json_each(?))`,
    )
    .bind(await hashPassword(password), JSON.stringify(people.map(({ userId }) => userId)))
    .run();
  return people.map(({ userId }) => `${userId}@bench.example`);
}

export function loginRequest(
  fields: object,
  headers: Readonly<Record<string, string>> = {},
): Uint8Array {
  return httpRequest({
    method: "POST",
    target: "/auth/login",
    headers,
    body: JSON.stringify(fields),
  });
}

export async function fund(
  db: Database,
  userIds: readonly string[],
  assets: readonly string[],
  units: number,
  at: Expr = NOW,
): Promise<void> {
  const [users, given] = [JSON.stringify(userIds), JSON.stringify(assets)];
  const missing =
    "NOT EXISTS (SELECT 1 FROM accounts x WHERE x.owner = CAST('external:local' AS BLOB) " +
    "AND x.asset = a.value AND x.kind = 'external')";
  await db.batch([
    db
      .prepare(
        `INSERT INTO accounts (owner, asset, kind, balance)
          SELECT CAST('external:local' AS BLOB), a.value, 'external', 0 FROM json_each(?) a
            WHERE ${missing}`,
      )
      .bind(given),
    ...["available", "pending"].map((kind) =>
      db
        .prepare(
          `INSERT INTO accounts (owner, asset, kind, balance)
            SELECT unhex(u.value, '-'), a.value, ?, 0 FROM json_each(?) u, json_each(?) a`,
        )
        .bind(kind, users, given),
    ),
    db
      .prepare(
        `INSERT INTO transfers (from_account, to_account, amount, reason, ref, step, line, at)
         SELECT e.account_id, t.account_id, ?, ${reasonCode("deposit").text}, randomblob(16),
           ${stepCode("credit").text}, 0, ${at.text} FROM json_each(?) u CROSS JOIN json_each(?) a
         CROSS JOIN accounts e ON e.owner = CAST('external:local' AS BLOB) AND e.asset = a.value
           AND e.kind = 'external'
         CROSS JOIN accounts t ON t.owner = unhex(u.value, '-') AND t.asset = a.value
           AND t.kind = 'available'`,
      )
      .bind(units, users, given),
  ]);
}

/**
 * A signed request as bytes, with `more` headers. It can be sent any number of times within 30
 * seconds.
 */
export async function signed(
  person: Person,
  method: string,
  target: string,
  fields?: Readonly<Record<string, unknown>>,
  more: Readonly<Record<string, string>> = {},
): Promise<Uint8Array> {
  const timestampMs = Date.now();
  const body = fields === undefined ? undefined : JSON.stringify(fields);
  const signature = await signWith(person.key, {
    timestampMs,
    method,
    pathAndQuery: target,
    ...(body === undefined ? {} : { body }),
  });
  const headers = { ...more, ...headersOf(person.apiKeyId, timestampMs, signature) };
  return httpRequest({ method, target, headers, ...(body === undefined ? {} : { body }) });
}

/**
 * A new outcome token in both notations. The id has 32 bytes, as those of prediction markets do.
 */
export function newToken(): { readonly assetId: string; readonly asset: string } {
  const assetId = `0x1${randomBytes(31).toString("hex")}`;
  return { assetId, asset: `venue_one:${assetId}` };
}
