/** Reads who may act for a chunk of users, and compares it with their audit events (rights.ts). */
import { NOW } from "../platform/commit.ts";
import { type Expr, expr, prepare, readUuid, select, type Sql, sql } from "../platform/sql.ts";
import { LOGGED_EVENT, uuidTextOf } from "../audit/audit.ts";
import { isGenuine, type MacKeys } from "../audit/event-mac.ts";
import { KEY_COLUMNS, type KeyRow } from "./key-seal.ts";
import { POLICY_COLUMNS, policyOf, type PolicyRow } from "./policy.ts";
import { needsMac } from "../audit/event-details.ts";
import {
  type AccountRights,
  CANCEL_KINDS,
  CANCELS_TOTP,
  History,
  KINDS,
  type RightsEvent,
  type WrongRight,
} from "./rights.ts";
import { sessionsEnded } from "./end-sessions.ts";

/** The rowid of the last of the next users. */
export function nextUsers(after: Expr, limit: number): Sql {
  return sql`SELECT rowid AS id FROM users WHERE rowid > ${after} ORDER BY rowid LIMIT ${limit}`;
}

type Users = { readonly after: number; readonly upTo: number };

/** Of a chunk of users. One batch, so that rows and events are those of one instant. */
export async function readRights(db: D1Database, keys: MacKeys, users: Users) {
  const { accounts, events, cancels } = await readRows(db, users);
  const forged = [...events, ...cancels].filter(
    (event) => needsMac(event) && !isGenuine(keys, event),
  );
  return { accounts, history: new History(events, cancels), forged };
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

/** Requests about the user that wait to take effect. */
const WAITING_KINDS = ["policy_changed", "totp_removal_requested", "totp_replacement_requested"];

type Owned = { readonly userHex: string };
type Rights = {
  readonly accounts: readonly AccountRights[];
  readonly events: readonly RightsEvent[];
  readonly cancels: readonly RightsEvent[];
};

async function readRows(db: D1Database, { after, upTo }: Users): Promise<Rights> {
  const chunk = sql`u.rowid > ${after} AND u.rowid <= ${upTo}`;
  const owned = sql`user_id IN (SELECT u.user_id FROM users u WHERE ${chunk})`;
  const liveKeys = sql`FROM users u JOIN api_keys k INDEXED BY api_keys_live
    ON k.user_id = u.user_id AND k.revoked_at IS NULL WHERE ${chunk}`;
  const addresses = sql`FROM users u JOIN withdrawal_addresses b ON b.user_id = u.user_id
    WHERE ${chunk}`;
  const userId = uuidTextOf("u.user_id");
  const results = await db.batch<never>(
    [
      sql`SELECT hex(u.user_id) AS userHex, u.email, u.password_hash AS passwordHash,
          u.frozen_at AS frozenAt, u.frozen_by AS frozenBy, u.hold_until AS holdUntil,
          u.session_epoch AS sessionEpoch,
          ${sessionsEnded(userId)} AS sessionsEnded,
          ${NOW} AS now FROM users u WHERE ${chunk}`,
      sql`SELECT hex(user_id) AS userHex, ${POLICY_COLUMNS} FROM account_policies WHERE ${owned}`,
      sql`SELECT hex(user_id) AS userHex, created_at AS createdAt, next_from AS nextFrom,
          ends_at AS endsAt
        FROM totp_secrets WHERE status = 'confirmed' AND ${owned}`,
      sql`SELECT hex(user_id) AS userHex, hex(code_hash) AS hash
        FROM recovery_codes WHERE ${owned}`,
      sql`SELECT ${select(KEY_COLUMNS)} ${liveKeys}`,
      sql`SELECT hex(b.user_id) AS userHex, ${uuidTextOf("b.address_id")} AS addressId, b.chain,
          lower(hex(b.address)) AS address, b.active_from AS activeFrom ${addresses}`,
      firstCancels(sql`SELECT ${userId} AS subject,
          ${lastSeq(userId, expr`k.value`)} AS seq FROM users u
          JOIN json_each(${JSON.stringify(WAITING_KINDS)}) k WHERE ${chunk}
        UNION ALL SELECT ${uuidTextOf("b.user_id")},
          ${lastSeq(uuidTextOf("b.address_id"), expr`'withdrawal_address_created'`)} ${addresses}`),
      lastEvents(sql`SELECT ${userId} AS subject FROM users u WHERE ${chunk}`, KINDS.user),
      lastEvents(sql`SELECT ${uuidTextOf("k.api_key_id")} AS subject ${liveKeys}`, KINDS.key),
      lastEvents(sql`SELECT ${uuidTextOf("b.address_id")} AS subject ${addresses}`, KINDS.address),
    ].map((statement) => prepare(db, statement)),
  );
  return rightsOf(results.map(({ results: rows }) => rows));
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

type UserRow = Owned &
  Pick<
    AccountRights,
    | "now"
    | "email"
    | "passwordHash"
    | "frozenAt"
    | "frozenBy"
    | "holdUntil"
    | "sessionEpoch"
    | "sessionsEnded"
  >;

/** Safe cast: these are the columns that the statements select, in their order. */
function rightsOf(results: readonly (readonly unknown[])[]): Rights {
  const [users, policies, totp, codes, keys, addresses, cancels, ...events] = results as [
    readonly UserRow[],
    readonly (Owned & PolicyRow)[],
    readonly (Owned & NonNullable<AccountRights["totp"]>)[],
    readonly (Owned & { readonly hash: string })[],
    readonly KeyRow[],
    readonly (Owned & AccountRights["addresses"][number])[],
    readonly RightsEvent[],
    ...(readonly RightsEvent[])[],
  ];
  const [policiesOf, totpOf, codesOf, keysOf, addressesOf] = [
    byUser(policies),
    byUser(totp),
    byUser(codes),
    byUser(keys),
    byUser(addresses),
  ];
  const accounts = users.map(({ userHex, ...user }) => ({
    ...user,
    userId: readUuid(userHex),
    policies: policiesOf(userHex).map((row) => ({
      activeFrom: row.activeFrom,
      policy: policyOf(row),
    })),
    totp: totpOf(userHex)[0] ?? null,
    codes: codesOf(userHex).map(({ hash }) => hash),
    keys: keysOf(userHex).map(({ keyHex, ...rights }) => ({
      apiKeyId: readUuid(keyHex),
      ...rights,
    })),
    addresses: addressesOf(userHex),
  }));
  return { accounts, events: events.flat(), cancels };
}

function byUser<Row extends Owned>(
  rows: readonly Row[],
): (userHex: string) => readonly Omit<Row, "userHex">[] {
  const grouped = Map.groupBy(rows, ({ userHex }) => userHex);
  return (hex) =>
    (grouped.get(hex) ?? []).map((row) => {
      const { userHex: _, ...own } = row;
      return own;
    });
}
