/** Shows users: who they are, what they have and what they have open. */
import { ownRecords } from "../archive/ask-history.ts";
import { exportedBlocks, type ExportedKind } from "../archive/exported-blocks.ts";
import { uuidTextOf } from "../audit/audit.ts";
import { listApiKeys } from "../auth/api-key.ts";
import { readKeyLimits } from "../auth/key-limits.ts";
import { NOW } from "../platform/commit.ts";
import { FROZEN_BY, type FrozenBy } from "../auth/hold.ts";
import { listDepositAddresses } from "../custody/deposit-address.ts";
import { balanceView } from "../custody/list-balances.ts";
import { listEntries } from "../custody/list-entries.ts";
import { LedgerQuery } from "../custody/schemas.ts";
import { ownUnfinishedWithdrawals } from "../custody/snapshot-custody.ts";
import { listWithdrawalAddresses } from "../custody/withdrawal-addresses.ts";
import { readBalances } from "../ledger/balance.ts";
import {
  all,
  and,
  expr,
  first,
  type RowOf,
  select,
  type Sql,
  sql,
  typed,
  uuid,
} from "../platform/sql.ts";
import { toWireTime, toWireTimeOrNull } from "../platform/time.ts";
import { encodeCursor, type Page, timeIdPage } from "../http/cursor.ts";
import { invalidRequest } from "../platform/problem.ts";
import { exportedViews, sealCursor } from "../rfq/export-records.ts";
import { listMatches } from "../rfq/list-matches.ts";
import { ownOpenRecords } from "../rfq/snapshot-rfq.ts";
import type { SnapshotPart } from "../streams/replay.ts";
import { argument, limitOption, type OperatorContext, optionalField, parse } from "./context.ts";
import { Listed, ofUserSince, listedPage } from "./listed.ts";
import { userOf } from "./users.ts";

/** Rows of each list of `user show`. `more` names the lists that are cut. */
const MAX_SHOWN = 100;

const USER = {
  user_id: uuidTextOf("u.user_id"),
  email: typed<string>("u.email"),
  created_at: typed<number>("u.created_at"),
  frozen_at: typed<number | null>("u.frozen_at"),
  frozen_by: typed<FrozenBy | null>(FROZEN_BY.text),
};
type UserRow = RowOf<typeof USER>;

/** Lists users, newest first. Their ids contain the time, so the primary key sorts them. */
export async function list(context: OperatorContext): Promise<unknown> {
  const listed = await ofUserSince(context, { id: "u.user_id", users: [] });
  const rows = await all<UserRow>(
    context.env.DB,
    sql`SELECT ${select(USER)} FROM users u WHERE ${and(listed)}
      ORDER BY u.user_id DESC LIMIT ${limitOption(context)}`,
  );
  return listedPage(context, rows, ({ user_id }) => user_id, userView);
}

/** Shows one user with balances, API keys, and what is open or unfinished. */
export async function show(context: OperatorContext): Promise<unknown> {
  const db = context.env.DB;
  const userId = await userOf(context);
  const row = await first<UserRow>(
    db,
    sql`SELECT ${select(USER)} FROM users u WHERE u.user_id = ${uuid(userId)}`,
  );
  if (row === undefined) throw new Error(`user ${userId} was just found`);
  const balances = await readBalances(db, userId, { after: "", limit: MAX_SHOWN + 1 });
  const keys = await listApiKeys(db, userId, { limit: MAX_SHOWN + 1 });
  const open = await Promise.all(
    [...ownOpenRecords(userId), ownUnfinishedWithdrawals(userId)].map((part) => rowsOf(db, part)),
  );
  const [requests = [], quotes = [], withdrawals = []] = open;
  const lists: Record<string, readonly unknown[]> = {
    balances: balances.map((balance) => balanceView(balance.asset, balance)),
    api_keys: keys.items,
    open_requests: requests,
    open_quotes: quotes,
    unfinished_withdrawals: withdrawals,
  };
  return {
    ...userView(row),
    ...Object.fromEntries(
      Object.entries(lists).map(([name, items]) => [name, items.slice(0, MAX_SHOWN)]),
    ),
    more: Object.keys(lists).filter((name) => (lists[name]?.length ?? 0) > MAX_SHOWN),
  };
}

const WITHDRAW_KEY = {
  api_key_id: uuidTextOf("k.api_key_id"),
  user_id: uuidTextOf("k.user_id"),
  label: typed<string>("k.label"),
  limits: typed<string | null>("k.limits"),
  active_from: typed<number | null>("k.active_from"),
  approved_at: typed<number | null>("k.approved_at"),
  expires_at: typed<number | null>("k.expires_at"),
};

/** Lists the keys that may withdraw, or will, newest first: how each gets its scopes and when. */
export async function withdrawKeys(context: OperatorContext): Promise<unknown> {
  const listed = await ofUserSince(context, { id: "k.api_key_id", users: ["k.user_id"] });
  const live = expr`k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > ${NOW})
    AND instr(k.scopes, 'withdraw') > 0`;
  const rows = await all<RowOf<typeof WITHDRAW_KEY>>(
    context.env.DB,
    sql`SELECT ${select(WITHDRAW_KEY)} FROM api_keys k WHERE ${and([live, ...listed])}
      ORDER BY k.api_key_id DESC LIMIT ${limitOption(context)}`,
  );
  return listedPage(
    context,
    rows,
    ({ api_key_id }) => api_key_id,
    ({ limits, active_from, approved_at, expires_at, ...key }) => ({
      ...key,
      pays: (limits === null ? undefined : readKeyLimits(limits).paysTo) ?? "anywhere",
      active_from: toWireTimeOrNull(active_from),
      approved_at: toWireTimeOrNull(approved_at),
      expires_at: toWireTimeOrNull(expires_at),
    }),
  );
}

async function rowsOf(db: D1Database, { statement, view }: SnapshotPart): Promise<unknown[]> {
  const limited: Sql = sql`${statement} LIMIT ${MAX_SHOWN + 1}`;
  return (await all(db, limited)).map(view);
}

function userView(row: UserRow) {
  return {
    user_id: row.user_id,
    email: row.email,
    frozen_by: row.frozen_by,
    frozen_at: toWireTimeOrNull(row.frozen_at),
    created_at: toWireTime(row.created_at),
  };
}

/** A page of what a user has had, from the archive too. */
export async function history(context: OperatorContext): Promise<Listed> {
  const kind = argument(context, "kind");
  const { DB: db } = context.env;
  const userId = await userOf(context);
  if (kind === "requests" || kind === "quotes") return endedRecords(context, userId, kind);
  const page = {
    limit: limitOption(context),
    last_cursor: optionalField(context, "cursor", timeIdPage.last_cursor),
  };
  const lists: Readonly<Record<string, () => Promise<Page<unknown>>>> = {
    matches: () => listMatches(ownRecords(context.env, userId), userId, {}, page),
    "withdrawal-addresses": () => listWithdrawalAddresses(db, userId, page),
    "deposit-addresses": async () => ({
      items: await listDepositAddresses(db, userId),
      next_cursor: null,
    }),
  };
  const found = Object.hasOwn(lists, kind) ? lists[kind] : undefined;
  if (found === undefined)
    throw invalidRequest([
      {
        path: "kind",
        message: `must be one of ${["requests", "quotes", ...Object.keys(lists)].join(", ")}`,
      },
    ]);
  const { items, next_cursor } = await found();
  return new Listed(items, next_cursor);
}

/** Those that ended, one block of the archive a page. `requests list` has the others. */
async function endedRecords(
  context: OperatorContext,
  userId: string,
  kind: ExportedKind,
): Promise<Listed> {
  const { env } = context;
  const ever = { from: 0, to: Number.MAX_SAFE_INTEGER };
  const after = optionalField(context, "cursor", sealCursor)?.position ?? 0;
  const range = { ...ever, after, limit: 2 };
  const [block, next] = await exportedBlocks(ownRecords(env, userId), userId, kind, range);
  if (block === undefined) return new Listed([], null);
  const cursor = next === undefined ? null : encodeCursor([block.id.number]);
  return new Listed(await exportedViews(env.ARCHIVE, kind, block, ever), cursor);
}

/** A page of a user's ledger, as they read it themselves. */
export async function ledger(context: OperatorContext): Promise<Listed> {
  const { env, settings, options } = context;
  const userId = await userOf(context);
  const { from, to, cursor } = options;
  const period = parse(LedgerQuery, { from, to, last_cursor: cursor }, "options");
  const query = { ...period, limit: limitOption(context) };
  const venues = settings.VENUES.map(({ venue_id }) => venue_id);
  const { old } = ownRecords(env, userId);
  const { items, next_cursor } = await listEntries(env.DB, userId, query, venues, old);
  return new Listed(items, next_cursor);
}
