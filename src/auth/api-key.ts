/** API keys as their owner sees them: never their secret. */
import * as z from "zod";
import { and, desc, eq } from "drizzle-orm";
import { NOW } from "../platform/commit.ts";
import {
  afterCursor,
  fetchCount,
  type Page,
  pageOf,
  type PageQuery,
  type TimeId,
} from "../http/cursor.ts";
import { described, timeOrNullOut, timeOut } from "../http/fields.ts";
import { read } from "../platform/read.ts";
import { raw, sql } from "../platform/sql.ts";
import { rowsOf, trimUntilDone } from "../platform/trim.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { checksumAddress } from "../assets/address.ts";
import { KEY_APPROVAL_MS } from "./approve-key.ts";
import { KeyLimitsOut, limitsView } from "./key-limits.ts";
import { readKeyRights } from "./key-seal.ts";
import { apiKeys } from "./tables.ts";
import { SCOPES } from "../platform/actor.ts";

export const KeyRecord = z
  .object({
    api_key_id: described(z.uuid(), "Id of the key, sent in the header APIKEY"),
    label: described(z.string(), "Name of the key, chosen when it was minted"),
    scopes: described(z.array(z.enum(SCOPES)), "Scopes of the key"),
    created_at: timeOut("When the key was minted"),
    expires_at: timeOrNullOut("When the key expires. Null: never."),
    allowed_ips: described(
      z.array(z.string()).nullable(),
      "IP addresses and CIDR ranges that may use the key. Null: any.",
    ),
    last_used_at: timeOrNullOut("When the key was last used. May lag by a minute. Null: never."),
    revoked_at: timeOrNullOut("When the key was revoked. Null if it is not revoked."),
    minted_by: described(
      z.enum(["session", "operator"]),
      "Who minted the key. An operator's key has its scopes only after a delay.",
    ),
    limits: KeyLimitsOut,
    only_listed: described(
      z.boolean(),
      "Whether the key withdraws only to addresses of the owner's address book",
    ),
    addresses: z
      .array(z.string())
      .nullable()
      .meta({ description: "With `only_listed`: only those of them. Null: all", examples: [null] }),
    require_idempotency: described(
      z.boolean(),
      "Whether requests and quotes that the key signs need `idempotency_key` in the body",
    ),
    active_from: timeOrNullOut(
      "From when the key has its scopes. Null until the operator has approved it.",
    ),
    approved_at: timeOrNullOut(
      "When the operator approved the key. Null if it needed no approval or has none yet.",
    ),
  })
  .meta({ id: "ApiKey" });
export type KeyRecord = z.input<typeof KeyRecord>;

export async function listApiKeys(
  db: D1Database,
  userId: string,
  page: PageQuery<TimeId>,
): Promise<Page<KeyRecord>> {
  const { apiKeyId: id, createdAt: at } = apiKeys;
  const rows = await read(db, ({ select }) =>
    select()
      .from(apiKeys)
      .where(and(eq(apiKeys.userId, userId), afterCursor(page, { at, id })))
      .orderBy(desc(at), desc(id))
      .limit(fetchCount(page)),
  );
  return pageOf(page, rows, toRecord, (row) => ({ at: row.createdAt, id: row.apiKeyId }));
}

export async function findKey(
  db: D1Database,
  key: { apiKeyId: string; userId: string },
): Promise<KeyRecord | undefined> {
  const [row] = await read(db, ({ select }) =>
    select()
      .from(apiKeys)
      .where(and(eq(apiKeys.apiKeyId, key.apiKeyId), eq(apiKeys.userId, key.userId))),
  );
  return row && toRecord(row);
}

/** The user that a key belongs to. Undefined if there is no such key. */
export async function ownerOfKey(db: D1Database, apiKeyId: string): Promise<string | undefined> {
  const [key] = await read(db, ({ select }) =>
    select().from(apiKeys).where(eq(apiKeys.apiKeyId, apiKeyId)),
  );
  return key?.userId;
}

/** Never the secret. */
function toRecord(row: typeof apiKeys.$inferSelect): KeyRecord {
  const { scopes, limits, allowedIps, requireIdempotency } = readKeyRights(row);
  const paysTo = limits?.paysTo;
  return {
    api_key_id: row.apiKeyId,
    label: row.label,
    scopes,
    created_at: toWireTime(row.createdAt),
    expires_at: toWireTimeOrNull(row.expiresAt),
    allowed_ips: allowedIps === null ? null : [...allowedIps],
    last_used_at: toWireTimeOrNull(row.lastUsedAt),
    revoked_at: toWireTimeOrNull(row.revokedAt),
    minted_by: row.mintedBy,
    limits: limits === null ? null : limitsView(limits),
    only_listed: paysTo !== undefined,
    addresses:
      paysTo === undefined || paysTo === "all" ? null : paysTo.map((one) => checksumAddress(one)),
    require_idempotency: requireIdempotency,
    active_from: toWireTimeOrNull(row.activeFrom),
    approved_at: toWireTimeOrNull(row.approvedAt),
  };
}

/** How long a key that was revoked or has expired is listed. */
const KEEP_ENDED_MS = 30 * 86_400_000;

/**
 * Cron task: deletes keys that ended long ago, and their timers (the trigger `api_keys_timer`).
 * Their audit events stay.
 */
export async function trimApiKeys(db: D1Database): Promise<void> {
  const unapproved = sql`INDEXED BY api_keys_waiting
    WHERE active_from IS NULL AND created_at <= ${NOW} - ${KEY_APPROVAL_MS} ORDER BY created_at`;
  const ended = [raw("revoked_at"), raw("expires_at")].map(
    (at) => sql`WHERE ${at} < ${NOW} - ${KEEP_ENDED_MS} ORDER BY ${at}`,
  );
  const trims = [unapproved, ...ended].map((rest) => rowsOf("api_keys", "api_key_id", rest));
  await trimUntilDone(db, ...trims);
}
