/** Reads who may act for a chunk of users, and compares it with their audit events (rights.ts). */
import { NOW } from "../platform/commit.ts";
import {
  atom,
  batch,
  type Columns,
  type Expr,
  expr,
  jsonObject,
  select,
  type Sql,
  sql,
} from "../platform/sql.ts";
import { LOGGED_EVENT, uuidTextOf } from "../audit/audit.ts";
import { isGenuine, type MacKeys } from "../audit/event-mac.ts";
import { RIGHT_COLUMNS } from "./key-seal.ts";
import { POLICY_COLUMNS, policyOf, type PolicyRow } from "./policy.ts";
import { needsMac } from "../audit/event-details.ts";
import {
  type AccountRights,
  CANCEL_KINDS,
  CANCELS_TOTP,
  RightsHistory,
  RIGHTS_KINDS,
  type RightsEvent,
  type WrongRight,
} from "./rights.ts";
import { sessionsEnded } from "./end-sessions.ts";

/** Requests about the user that wait to take effect. */
const WAITING_KINDS = ["policy_changed", "totp_removal_requested", "totp_replacement_requested"];

/** Of users with rowids `after < id <= upTo`. One batch: rows and events are of one instant. */
export async function readRights(
  db: D1Database,
  keys: MacKeys,
  { after, upTo }: { readonly after: number; readonly upTo: number },
) {
  const chunk = sql`u.rowid > ${after} AND u.rowid <= ${upTo}`;
  const liveKeys = sql`FROM users u JOIN api_keys k INDEXED BY api_keys_live
    ON k.user_id = u.user_id AND k.revoked_at IS NULL WHERE ${chunk}`;
  const addresses = sql`FROM users u JOIN withdrawal_addresses b ON b.user_id = u.user_id
    WHERE ${chunk}`;
  const userId = uuidTextOf("u.user_id");
  const [accounts = [], cancels = [], ...last] = await batch<{ account: string } & RightsEvent>(
    db,
    [
      sql`SELECT ${jsonObject(ACCOUNT)} AS account FROM users u WHERE ${chunk}`,
      firstCancels(sql`SELECT ${userId} AS subject,
          ${lastSeq(userId, expr`k.value`)} AS seq FROM users u
          JOIN json_each(${JSON.stringify(WAITING_KINDS)}) k WHERE ${chunk}
        UNION ALL SELECT ${uuidTextOf("b.user_id")},
          ${lastSeq(uuidTextOf("b.address_id"), expr`'withdrawal_address_created'`)} ${addresses}`),
      lastEvents(sql`SELECT ${userId} AS subject FROM users u WHERE ${chunk}`, RIGHTS_KINDS.user),
      lastEvents(
        sql`SELECT ${uuidTextOf("k.api_key_id")} AS subject ${liveKeys}`,
        RIGHTS_KINDS.key,
      ),
      lastEvents(
        sql`SELECT ${uuidTextOf("b.address_id")} AS subject ${addresses}`,
        RIGHTS_KINDS.address,
      ),
    ],
  );
  const events = last.flat();
  const forged = [...events, ...cancels].filter(
    (event) => needsMac(event) && !isGenuine(keys, event),
  );
  return {
    accounts: accounts.map(({ account }) => readAccount(account)),
    history: new RightsHistory(events, cancels),
    forged,
  };
}

/** The account's events that this service did not write. */
export function forgedEvents(
  { userId, keys, addresses }: AccountRights,
  forged: readonly RightsEvent[],
): WrongRight[] {
  if (forged.length === 0) return [];
  const subjects = new Set([
    userId,
    ...keys.map(({ apiKeyId }) => apiKeyId),
    ...addresses.map(({ addressId }) => addressId),
  ]);
  return forged
    .filter(({ subjectId }) => subjects.has(subjectId))
    .map(({ seq, kind }) => ({
      what: `event/${seq}`,
      detail: `the audit event ${kind} has no valid MAC, so this service did not write it`,
    }));
}

/** Over `users u`. */
const ACCOUNT: Columns<keyof AccountRights> = {
  userId: uuidTextOf("u.user_id"),
  now: NOW,
  email: atom("u.email"),
  passwordHash: atom("u.password_hash"),
  frozenAt: atom("u.frozen_at"),
  frozenBy: atom("u.frozen_by"),
  holdUntil: atom("u.hold_until"),
  sessionEpoch: atom("u.session_epoch"),
  sessionsEnded: sessionsEnded(uuidTextOf("u.user_id")),
  policies: listOf(jsonObject(POLICY_COLUMNS), sql`account_policies k`),
  totp: expr`json(${expr`SELECT ${jsonObject({
    createdAt: atom("k.created_at"),
    nextFrom: atom("k.next_from"),
    endsAt: atom("k.ends_at"),
  })} FROM totp_secrets k WHERE k.user_id = u.user_id AND k.status = 'confirmed'`})`,
  codes: listOf(atom("hex(k.code_hash)"), sql`recovery_codes k`),
  keys: listOf(
    jsonObject({ apiKeyId: uuidTextOf("k.api_key_id"), ...RIGHT_COLUMNS }),
    sql`api_keys k INDEXED BY api_keys_live`,
    sql`k.revoked_at IS NULL AND `,
  ),
  addresses: listOf(
    jsonObject({
      addressId: uuidTextOf("k.address_id"),
      chain: atom("k.chain"),
      address: atom("lower(hex(k.address))"),
      activeFrom: atom("k.active_from"),
    }),
    sql`withdrawal_addresses k`,
  ),
};

/** A JSON array of what is the user's. */
function listOf(item: Expr, from: Sql, which: Sql = sql``): Expr {
  const list = expr`SELECT json_group_array(${item}) FROM ${from}
    WHERE ${which}k.user_id = u.user_id`;
  return expr`json(${list})`;
}

/** Safe cast: a text or a value of each column of `ACCOUNT`. */
function readAccount(json: string): AccountRights {
  const { policies, ...account } = JSON.parse(json) as Omit<AccountRights, "policies"> & {
    readonly policies: readonly PolicyRow[];
  };
  return {
    ...account,
    policies: policies.map((row) => ({ activeFrom: row.activeFrom, policy: policyOf(row) })),
  };
}

/** The last event of each kind about each subject. */
function lastEvents(subjects: Sql, kinds: readonly string[]): Sql {
  return sql`SELECT ${select(LOGGED_EVENT)}
    FROM (${subjects}) s JOIN json_each(${JSON.stringify(kinds)}) k
    JOIN audit_events a ON a.audit_seq = ${lastSeq(expr`s.subject`, expr`k.value`)}`;
}

function lastSeq(subject: Expr, kind: Expr): Expr {
  return expr`(SELECT max(e.audit_seq) ${eventsOf(subject, kind)})`;
}

/** The first event of each kind that cancels, about the user and after `seq` of each request. */
function firstCancels(requests: Sql): Sql {
  return sql`SELECT ${select(LOGGED_EVENT)}
    FROM (${requests}) s JOIN json_each(${JSON.stringify([...CANCEL_KINDS, CANCELS_TOTP])}) k
    JOIN audit_events a ON a.audit_seq = (SELECT min(e.audit_seq)
      ${eventsOf(expr`s.subject`, expr`k.value`)} AND e.audit_seq > s.seq)`;
}

function eventsOf(subject: Expr, kind: Expr): Sql {
  return sql`FROM audit_events e INDEXED BY audit_events_rights
    WHERE e.subject_id = ${subject} AND e.kind = ${kind} AND e.details IS NOT NULL`;
}
