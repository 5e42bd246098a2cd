/** What a token of a market is worth. An order sets it and ends trading; cron tells the holders. */
import { newGroup } from "../../platform/commit.ts";
import { storedAsset, storedEvent } from "../../platform/event-forms.ts";
import { atom, expr, first, sql } from "../../platform/sql.ts";
import { announce } from "../../platform/announce.ts";
import { pushOrThrow } from "../../streams/event-log.ts";
import { pusherOf } from "../../streams/notify.ts";
import { cancelOpenRequests } from "../close-books.ts";
import { MARKET_RESULT } from "../rfq-event-forms.ts";
import { findMarket } from "./market-list.ts";
import type { Record } from "./set-markets.ts";

/**
 * Sets or corrects the result of a listed market, in USDC for one token scaled by 1e6, and cancels
 * what is open in it. The same result is not set again. Undefined if the asset is not listed.
 */
export async function resolveMarket(
  env: Env,
  asset: string,
  { result, record }: { readonly result: number; readonly record: Record },
): Promise<{ readonly previous: number | null; readonly cancelled: number } | undefined> {
  const listed = await findMarket(env.DB, asset);
  if (listed === undefined) return undefined;
  const previous = listed.result;
  // The trigger of the table refuses it, and the audit event with it, if the result has changed.
  if (previous !== result)
    await record((group) => [
      sql`INSERT INTO market_results (asset, result, previous, at, set_group)
        VALUES (${asset}, ${result}, ${previous}, ${group.at}, ${group.seq})`,
    ]);
  return { previous, cancelled: await cancelOpenRequests(env, sql`asset = ${asset}`) };
}

/** Accounts that one batch looks at, and of them accounts of the token, two of each user. */
const SCANNED_PER_SLICE = 20_000;
const HOLDING_PER_SLICE = 1_000;

type Untold = {
  readonly result_id: number;
  readonly asset: string;
  readonly told_up_to: number;
  /** Null: no account follows. */
  readonly up_to: number | null;
};

/** Cron: announces the oldest result to a slice of its holders. Returns whether more may wait. */
export async function tellResults(env: Env): Promise<boolean> {
  const next = await first<Untold>(
    env.DB,
    sql`SELECT r.result_id, r.asset, r.told_up_to, (
        SELECT max(account_id) FROM (
          SELECT account_id, sum(asset = r.asset) OVER (ORDER BY account_id) AS holding FROM (
            SELECT account_id, asset FROM accounts WHERE account_id > r.told_up_to
            ORDER BY account_id LIMIT ${SCANNED_PER_SLICE}))
        WHERE holding <= ${HOLDING_PER_SLICE}) AS up_to
      FROM market_results r WHERE r.told_at IS NULL ORDER BY r.result_id LIMIT 1`,
  );
  if (next === undefined) return false;
  const { result_id: id, asset, told_up_to: after, up_to: upTo } = next;
  const group = newGroup();
  await pushOrThrow(pusherOf(env), group, [
    sql`UPDATE market_results SET told_up_to = ${upTo ?? after}, told_group = ${group.seq},
        told_at = iif(${upTo} IS NULL, ${group.at}, NULL)
      WHERE result_id = ${id} AND told_up_to = ${after} AND told_at IS NULL`,
    ...announce(
      group,
      sql`SELECT a.owner AS stream, ${storedEvent(MARKET_RESULT, "market.result", {
        ...storedAsset("r.asset"),
        result: atom("r.result"),
        previous: atom("r.previous"),
      })}, a.account_id AS ord
        FROM market_results r CROSS JOIN accounts a
          ON a.account_id > ${after} AND a.account_id <= ${upTo ?? after}
        WHERE r.result_id = ${id} AND r.told_group = ${group.seq} AND a.asset = ${asset}
          AND a.kind = 'available' AND ${HOLDS}`,
    ),
  ]);
  return true;
}

/** Condition on an available account `a`: its owner holds some of the token. */
const HOLDS = expr`EXISTS (SELECT 1 FROM accounts b WHERE b.owner = a.owner AND b.asset = a.asset
  AND b.kind IN ('available', 'pending') AND b.balance > 0)`;
