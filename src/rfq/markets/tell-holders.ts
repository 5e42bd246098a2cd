/** Cron tells the holders of a token what operators changed about its market. */
import { announce } from "../../platform/announce.ts";
import { newGroup } from "../../platform/commit.ts";
import { storedAsset, storedEvent } from "../../platform/event-forms.ts";
import { atom, expr, first, raw, type Sql, sql } from "../../platform/sql.ts";
import { pushOrThrow } from "../../streams/event-log.ts";
import { pusherOf } from "../../streams/notify.ts";
import { MARKET_CORRECTED, MARKET_RESULT } from "../rfq-event-forms.ts";

/** A table of what is to be told, with its key and the event over its row `r`. */
type Told = { readonly table: string; readonly id: string; readonly event: Sql };

const TOLD: readonly Told[] = [
  {
    table: "market_results",
    id: "result_id",
    event: storedEvent(MARKET_RESULT, "market.result", {
      ...storedAsset("r.asset"),
      result: atom("r.result"),
      previous: atom("r.previous"),
    }),
  },
  {
    table: "market_corrections",
    id: "correction_id",
    event: storedEvent(MARKET_CORRECTED, "market.corrected", {
      ...storedAsset("r.asset"),
      title: atom("r.title"),
      outcome: atom("r.outcome"),
      previous_title: atom("r.previous_title"),
      previous_outcome: atom("r.previous_outcome"),
    }),
  },
];

/** Accounts that one batch looks at, and of them accounts of the token, two of each user. */
const SCANNED_PER_SLICE = 20_000;
const HOLDING_PER_SLICE = 1_000;

type Untold = {
  readonly id: number;
  readonly asset: string;
  readonly told_up_to: number;
  /** Null: no account follows. */
  readonly up_to: number | null;
};

/** Cron: announces the oldest change to a slice of its holders. Returns whether more may wait. */
export async function tellHolders(env: Env): Promise<boolean> {
  for (const told of TOLD) if (await tellNext(env, told)) return true;
  return false;
}

async function tellNext(env: Env, { table, id: key, event }: Told): Promise<boolean> {
  const next = await first<Untold>(
    env.DB,
    sql`SELECT r.${raw(key)} AS id, r.asset, r.told_up_to, (
        SELECT max(account_id) FROM (
          SELECT account_id, sum(asset = r.asset) OVER (ORDER BY account_id) AS holding FROM (
            SELECT account_id, asset FROM accounts WHERE account_id > r.told_up_to
            ORDER BY account_id LIMIT ${SCANNED_PER_SLICE}))
        WHERE holding <= ${HOLDING_PER_SLICE}) AS up_to
      FROM ${raw(table)} r WHERE r.told_at IS NULL ORDER BY r.${raw(key)} LIMIT 1`,
  );
  if (next === undefined) return false;
  const { id, asset, told_up_to: after, up_to: upTo } = next;
  const group = newGroup();
  await pushOrThrow(pusherOf(env), group, [
    sql`UPDATE ${raw(table)} SET told_up_to = ${upTo ?? after}, told_group = ${group.seq},
        told_at = iif(${upTo} IS NULL, ${group.at}, NULL)
      WHERE ${raw(key)} = ${id} AND told_up_to = ${after} AND told_at IS NULL`,
    ...announce(
      group,
      sql`SELECT a.owner AS stream, ${event}, a.account_id AS ord
        FROM ${raw(table)} r CROSS JOIN accounts a
          ON a.account_id > ${after} AND a.account_id <= ${upTo ?? after}
        WHERE r.${raw(key)} = ${id} AND r.told_group = ${group.seq} AND a.asset = ${asset}
          AND a.kind = 'available' AND ${HOLDS}`,
    ),
  ]);
  return true;
}

/** Condition on an available account `a`: its owner holds some of the token. */
const HOLDS = expr`EXISTS (SELECT 1 FROM accounts b WHERE b.owner = a.owner AND b.asset = a.asset
  AND b.kind IN ('available', 'pending') AND b.balance > 0)`;
