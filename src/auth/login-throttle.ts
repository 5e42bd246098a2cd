/**
 * Limits logins, above all failed ones. Attempts are counted in D1, which all isolates share. An
 * attempt is counted when it holds the turn in which its password is hashed, so attempts that are
 * turned away count nothing, and parallel guesses all count.
 *
 * A stranger must not lock the owner out. A network that has logged a user in within 30 days is
 * known for that user: only its own attempts on this email count against it, and its logins do not
 * queue behind those of strangers (hash-turns.ts). For the same reason right passwords, which cost
 * a hash too, are limited per email and network: a thief of the password has other networks.
 */
import { FROZEN_BY, type FrozenBy, holdUntil } from "./hold.ts";
import { sessionsMayTrade } from "./policy.ts";
import { secretAt } from "./totp-secret.ts";
import { createHash } from "node:crypto";
import { type Group, NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { Problem } from "../platform/problem.ts";
import {
  all,
  and,
  atom,
  batch,
  blob,
  type Expr,
  expr,
  FALSE,
  join,
  scalar,
  select,
  type Sql,
  sql,
  TRUE,
  uuid,
} from "../platform/sql.ts";
import { now } from "../platform/time.ts";
import { Until } from "../platform/until.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { blockOf, networkOf, widerNetworkOf } from "../http/ip-range.ts";
import { SharedRead } from "../platform/shared-read.ts";
import { type HashCaller, hasRoom, tooBusy } from "./hash-turns.ts";

export const LOGIN_LIMITS = {
  windowMs: 15 * 60_000,
  /** Failures from one network on one email address. */
  perEmailAndNetwork: 10,
  /** Failures from one IPv6 /48 on one email address. */
  perEmailAndBlock: 20,
  /** Failures from all networks on one email address. Then unknown networks have `underAttack`. */
  perEmail: 100,
  underAttack: 2,
  /** Failures from one network on all email addresses, and from one IPv6 /48. */
  perNetwork: 100,
  perBlock: 400,
} as const;
const MINUTE_MS = 60_000;

/** How long a network stays known for a user, and how many of the newest are. */
export const KNOWN_NETWORK_MS = 30 * 86_400_000;
const KNOWN_NETWORKS_PER_USER = 20;

/** `email` is normalized. */
export type Caller = { readonly email: string; readonly clientIp: string | undefined };
type Limits = Pick<Config, "AUTH_LOGINS_PER_MINUTE">;

type Admission = {
  readonly known: number;
  readonly waitMs: number | null;
  /** Whether the caller's IPv4 address or IPv6 /48 has logged in any user. */
  readonly familiar: number;
};
const admissions = new SharedRead<Caller, Admission>();

/** Places of callers who are certainly not known. */
const unfamiliar = new Until();
const UNFAMILIAR_MS = 10_000;

/**
 * The caller's place in the queue of hashes. Throws `login_throttled` if a limit is reached, before
 * the caller takes a turn. `hasSession`: the caller also has a valid session of the user.
 */
export async function admitLogin(
  db: D1Database,
  settings: Limits,
  caller: Caller,
  hasSession = false,
): Promise<HashCaller> {
  const stranger = { lane: "other", network: placeOf(caller.clientIp) } as const;
  // A flood is refused from memory, without a read of D1.
  if (!hasSession && unfamiliar.holds(stranger.network, now()) && !hasRoom(stranger))
    throw tooBusy();
  const found = await admissions.ask(caller, (callers) => readAdmissions(db, settings, callers));
  if (found === undefined) throw tooBusy();
  if (found.familiar === 0) unfamiliar.set(stranger.network, now() + UNFAMILIAR_MS);
  if (found.waitMs !== null) throw throttled(found.waitMs);
  if (hasSession) return ownPlace("session", caller);
  return found.known === 1 ? ownPlace("known", caller) : stranger;
}

/** The place of an account in the lane. Its network counts, so a thief elsewhere takes none. */
export function ownPlace(lane: "known" | "session", { email, clientIp }: Caller): HashCaller {
  return { lane, network: placeOf(clientIp), who: `${email} ${networkOf(clientIp)}` };
}

/** The IPv4 address or the IPv6 /48. */
function placeOf(clientIp: string | undefined): string {
  return blockOf(clientIp) ?? networkOf(clientIp);
}

/** One statement for all callers, because a flood sends hundreds a second. */
function readAdmissions(
  db: D1Database,
  settings: Limits,
  callers: readonly Caller[],
): Promise<Admission[]> {
  const asked = callers.map(({ email, clientIp }) => [
    email,
    emailHash(email),
    networkOf(clientIp),
    blockOf(clientIp) ?? null,
  ]);
  return all<Admission>(
    db,
    sql`WITH asked AS MATERIALIZED (
        SELECT key AS n, value ->> 0 AS email, unhex(value ->> 1) AS email_hash,
          value ->> 2 AS network, value ->> 3 AS block FROM json_each(${JSON.stringify(asked)}))
      SELECT ${isKnown(ASKED)} AS known, ${waitOf(limitsOf(settings, ASKED))} AS waitMs,
        ${isFamiliar(ASKED)} AS familiar
      FROM asked ORDER BY n`,
  );
}

/** A caller in SQL. The block of an IPv4 address is NULL, so no row is in it. */
type CallerSql = Readonly<Record<"email" | "emailHash" | "network" | "block", Expr>>;

const ASKED: CallerSql = {
  email: atom("asked.email"),
  emailHash: atom("asked.email_hash"),
  network: atom("asked.network"),
  block: atom("asked.block"),
};

function bound({ email, clientIp }: Caller): CallerSql {
  return {
    email: atom("?", [email]),
    emailHash: blob(emailHash(email)),
    network: atom("?", [networkOf(clientIp)]),
    block: atom("?", [blockOf(clientIp) ?? null]),
  };
}

/** What an attempt is verified against. */
export type Login = {
  readonly userHex: string;
  readonly passwordHash: string;
  readonly epoch: number;
  readonly frozen: FrozenBy | null;
  /** The end of the security hold. 0: there was none. */
  readonly holdUntil: number;
  /** Whether sessions may trade, by the account's policy. */
  readonly sessionsTrade: number;
  /** The sealed TOTP secret. Null: TOTP is off. */
  readonly sealed: string | null;
  readonly masterKeyId: string | null;
  readonly since: number | null;
};

/**
 * Counts an attempt and reads its user in one batch. Throws `login_throttled`. It counts before the
 * hash, so that a caller who disconnects during it cannot make us hash without limit. `refusal`:
 * how a wrong password is answered where strangers are refused. From another answer somebody in the
 * user's network would learn who logs in there.
 */
export async function beginAttempt(
  db: D1Database,
  settings: Limits,
  caller: Caller,
): Promise<{
  readonly attempt: string;
  readonly user: Login | undefined;
  readonly refusal: Problem | undefined;
}> {
  const attempt = uuidv7();
  const totp = secretAt(NOW, "t");
  const by = bound(caller);
  const limits = limitsOf(settings, by);
  const [refused, counted, found] = await batch(db, [
    sql`SELECT ${waitOf(limitsOf(settings, by, FALSE))} AS waitMs`,
    sql`INSERT INTO login_attempts (attempt_id, email_hash, network, at, succeeded)
      SELECT ${uuid(attempt)}, ${by.emailHash}, ${by.network}, ${NOW}, 0
      WHERE ${and(limits.map(({ reached }) => expr`NOT ${reached}`))}
      RETURNING 1 AS counted`,
    sql`SELECT hex(u.user_id) AS userHex, u.password_hash AS passwordHash,
        u.session_epoch AS epoch, ${FROZEN_BY} AS frozen,
        ${holdUntil(atom("u.user_id"), NOW)} AS holdUntil,
        ${sessionsMayTrade(expr`u.user_id`, NOW)} AS sessionsTrade,
        ${select(totp)}
      FROM users u LEFT JOIN totp_secrets t ON t.user_id = u.user_id AND t.status = 'confirmed'
        AND (t.ends_at IS NULL OR t.ends_at > ${NOW})
      WHERE u.email = ${caller.email}`,
  ]);
  if (counted?.length === 1) {
    // Safe cast: the statement selects the columns of the type.
    const [user] = (found ?? []) as Login[];
    const [{ waitMs } = { waitMs: null }] = (refused ?? []) as { waitMs: number | null }[];
    return { attempt, user, refusal: waitMs === null ? undefined : throttled(waitMs) };
  }
  throw throttled((await scalar<number | null>(db, waitOf(limits))) ?? 1_000);
}

/** A limit of attempts, and the instant from which on it counts one less. */
type Limit = { readonly reached: Expr; readonly endsAt: Expr };

function limitsOf(
  settings: Limits,
  caller: CallerSql,
  known: Expr = isKnown(caller),
): readonly Limit[] {
  const { perEmailAndNetwork, perEmailAndBlock, perEmail, underAttack, perNetwork, perBlock } =
    LOGIN_LIMITS;
  const email = sql`login_attempts.email_hash = ${caller.emailHash}`;
  const network = sql`login_attempts.network = ${caller.network}`;
  const { block } = caller;
  // Digits sort before the end of the range, which is the prefix and a letter above f.
  const inBlock = sql`login_attempts.network >= ${block}
    AND login_attempts.network < ${expr`${block} || 'g'`}`;
  const ofBoth = sql`${email} AND ${network}`;
  const ofStrangers = (limit: Limit, also: Expr = TRUE): Limit => ({
    ...limit,
    reached: expr`${limit.reached} AND ${also} AND NOT ${known}`,
  });
  return [
    failures(ofBoth, perEmailAndNetwork),
    ofStrangers(failures(ofBoth, underAttack), failures(email, perEmail).reached),
    ofStrangers(failures(network, perNetwork)),
    ofStrangers(failures(sql`${email} AND ${inBlock}`, perEmailAndBlock)),
    ofStrangers(failures(inBlock, perBlock)),
    attempts(ofBoth, settings.AUTH_LOGINS_PER_MINUTE, MINUTE_MS),
  ];
}

/** At most `limit` attempts in the window. Reads no more rows than that. */
function attempts(where: Sql, limit: number, windowMs: number): Limit {
  const recent = sql`FROM login_attempts WHERE ${where} AND at > ${NOW} - ${windowMs}`;
  return {
    reached: expr`(SELECT count(*) FROM (SELECT 1 ${recent} LIMIT ${limit})) >= ${limit}`,
    endsAt: expr`(SELECT min(at) ${recent}) + ${windowMs}`,
  };
}

function failures(where: Sql, limit: number): Limit {
  return attempts(sql`${where} AND succeeded = 0`, limit, LOGIN_LIMITS.windowMs);
}

/** Milliseconds until the first limit that is reached counts one attempt less. NULL: none is. */
function waitOf(limits: readonly Limit[]): Expr {
  const cases = limits.map(({ reached, endsAt }) => sql`WHEN ${reached} THEN ${endsAt}`);
  return expr`CASE ${join(cases, " ")} END - ${NOW}`;
}

/** Whether the caller's network has logged this user in. An unknown address never has. */
function isKnown({ email, network }: CallerSql): Expr {
  return expr`EXISTS (SELECT 1 FROM login_networks n JOIN users u ON u.user_id = n.user_id
    WHERE u.email = ${email} AND n.network = ${network}
      AND n.at > ${NOW} - ${KNOWN_NETWORK_MS})`;
}

/** Whether the caller's IPv4 address or IPv6 /48 is known for any user. */
function isFamiliar({ network, block }: CallerSql): Expr {
  const prefix = expr`coalesce(${block}, ${network})`;
  return expr`EXISTS (SELECT 1 FROM login_networks n
    WHERE n.network >= ${prefix} AND n.network < ${prefix} || 'g'
      AND n.at > ${NOW} - ${KNOWN_NETWORK_MS})`;
}

function emailHash(email: string): string {
  return createHash("sha256").update(email).digest("hex");
}

function throttled(waitMs: number): Problem {
  const retryAfterSecs = Math.max(1, Math.ceil(waitMs / 1_000));
  return new Problem({
    code: "login_throttled",
    detail: `Too many login attempts. Try again in ${retryAfterSecs} seconds.`,
    retryAfterSecs,
    headers: loginLimit({ left: 0, resetSecs: retryAfterSecs }),
  });
}

/** The headers of the limit of failures on one email address from one network. */
function loginLimit(state: { left: number; resetSecs: number }): Record<string, string> {
  const windowSecs = LOGIN_LIMITS.windowMs / 1_000;
  return {
    "ratelimit-policy": `"login";q=${LOGIN_LIMITS.perEmailAndNetwork};w=${windowSecs}`,
    ratelimit: `"login";r=${state.left};t=${state.resetSecs}`,
  };
}

/** The statement that reads what `remainingAttempts` reports, for the batch of a failure. */
export function countFailures(caller: Caller): Sql {
  const { emailHash: hash, network } = bound(caller);
  return sql`SELECT count(*) AS failures, min(at) + ${LOGIN_LIMITS.windowMs} - ${NOW} AS resetMs
    FROM login_attempts WHERE email_hash = ${hash} AND network = ${network}
      AND at > ${NOW} - ${LOGIN_LIMITS.windowMs} AND succeeded = 0`;
}

/** The headers of a failed login: how many more the network may make on this email address. */
export function remainingAttempts(row: unknown): Record<string, string> {
  // Safe cast: `countFailures` selects these columns.
  const { failures: count = 0, resetMs } = (row ?? {}) as {
    failures?: number;
    resetMs?: number | null;
  };
  return loginLimit({
    left: Math.max(0, LOGIN_LIMITS.perEmailAndNetwork - count),
    resetSecs: Math.ceil((resetMs ?? LOGIN_LIMITS.windowMs) / 1_000),
  });
}

/** Clears the failures from this network on this email address, because the password was right. */
export function attemptSucceeded(attempt: string, applied: Sql): Sql {
  return sql`UPDATE login_attempts SET succeeded = 1 WHERE (email_hash, network) IN
    (SELECT email_hash, network FROM login_attempts WHERE attempt_id = ${uuid(attempt)})
    AND ${applied}`;
}

/**
 * Whether the user has logged in before, but within 30 days from no address of this IPv4 /24 or
 * IPv6 /48. Evaluated before `rememberNetwork`. Keys follow the same rule (key-networks.ts).
 */
export function isNewNetwork(login: { userId: string; clientIp: string | undefined }): Expr {
  if (login.clientIp === undefined) return FALSE;
  const prefix = widerNetworkOf(login.clientIp) ?? networkOf(login.clientIp);
  const used = sql`SELECT 1 FROM login_networks n WHERE n.user_id = ${uuid(login.userId)}`;
  return expr`EXISTS (${used}) AND NOT EXISTS (
    ${used} AND n.at > ${NOW} - ${KNOWN_NETWORK_MS}
      AND n.network >= ${prefix} AND n.network < ${prefix} || 'g')`;
}

/** Makes the network known for the user. */
export function rememberNetwork(
  login: { userId: string; clientIp: string | undefined },
  group: Group,
  applied: Sql,
): Sql[] {
  if (login.clientIp === undefined) return [];
  unfamiliar.delete(placeOf(login.clientIp));
  const user = uuid(login.userId);
  return [
    sql`INSERT INTO login_networks (user_id, network, at)
      SELECT ${user}, ${networkOf(login.clientIp)}, ${group.at} WHERE ${applied}
      ON CONFLICT (user_id, network) DO UPDATE SET at = excluded.at`,
    sql`DELETE FROM login_networks WHERE user_id = ${user} AND ${applied} AND network NOT IN
      (SELECT network FROM login_networks WHERE user_id = ${user}
        ORDER BY at DESC LIMIT ${KNOWN_NETWORKS_PER_USER})`,
  ];
}

/** Cron task. Networks stay: without them a login after a rest would look like a user's first. */
export async function trimLoginAttempts(db: D1Database): Promise<void> {
  await all(db, sql`DELETE FROM login_attempts WHERE at < ${NOW} - ${4 * LOGIN_LIMITS.windowMs}`);
}
