/** What holds queued withdrawals back: the vault's limits, and tokens that refuse every transfer. */
import { IN_FLIGHT } from "../../assets/withdrawal-status.ts";
import { describe } from "../../chain/rpc.ts";
import { ERC1155, tokenName, tokenNameOf, tokenOf, tokenSubject } from "../../chain/token.ts";
import { readPaymentLimits, refusesTransfers } from "../../chain/vault-calls.ts";
import { askAgreed } from "../../chain/witnesses.ts";
import { alertWhile, clearAlert, raiseAlert } from "../../platform/alert.ts";
import { NOW } from "../../platform/commit.ts";
import { log } from "../../platform/log.ts";
import { all, sql } from "../../platform/sql.ts";
import { type Job, type PaymentLimits, waitingForLimit, type Choice } from "./choose-payments.ts";
import type { HeadView } from "./payer-context.ts";
import type { AssetKey } from "../../assets/asset.ts";

const DAY_MS = 86_400_000;
/** Withdrawals that were paid in the last day were ordered within this time, but for a few. */
const ORDERED_WITHIN_MS = 7 * DAY_MS;

/** Limits at the head of the jobs' assets and contracts. Empty if unknown: the vault checks. */
export async function readLimits(context: HeadView, jobs: readonly Job[]): Promise<PaymentLimits> {
  const { chain, settings, head } = context;
  const assets = [...new Set(jobs.map(({ asset }) => asset))];
  if (!context.agreed || assets.length === 0) return new Map();
  const tokens = assets.map((asset) => ({ ...tokenOf(settings, chain, asset), asset }));
  const names = new Map(
    tokens.flatMap(({ kind, token, asset }) =>
      kind === ERC1155 ? [[tokenName(asset), token] as const] : [],
    ),
  );
  const contracts = [...names.values()];
  try {
    const { value } = await askAgreed(
      chain,
      (endpoint) => readPaymentLimits(endpoint, chain, { tokens, contracts, block: head.number }),
      context.firstEndpoint,
    );
    const limited = [...assets, ...names.keys()];
    return new Map(value.map((limit, index) => [limited[index] ?? "", limit]));
  } catch (error) {
    log("warn", "payer.limits_unknown", { chain: chain.chain, error: describe(error) });
    return new Map();
  }
}

/** Raises or closes the alert about withdrawals that wait for the limit. */
export async function alertLimit(
  { db, chain: { chain } }: HeadView,
  jobs: readonly Job[],
  limits: PaymentLimits,
): Promise<void> {
  const job = waitingForLimit(jobs, limits);
  const detail =
    job &&
    `withdrawals of ${job.asset} wait for the vault's limit, which refills over 24 hours: the first ` +
      `needs ${job.amount}, and ${limits.get(job.asset)?.available} can be paid now. Raise the ` +
      `limit (contracts/README.md), or return it: withdrawals fail --id ${job.withdrawalId}`;
  await alertWhile(db, "limit_reached", chain, detail);
}

/**
 * Withdrawals whose owner would get more than a limit's largest payment within a day. Others come
 * first, so that capital sent round keeps nobody waiting. Each owner is added up once.
 */
export async function beyondShare(
  { db, chain: { chain } }: Pick<HeadView, "db"> & { readonly chain: { readonly chain: string } },
  limits: PaymentLimits,
  limited: readonly string[],
): Promise<string[]> {
  const maxima = limited.map((name) => ({ name, maximum: `${limits.get(name)?.maximum}` }));
  const rows = await all<{ id: string }>(
    db,
    sql`WITH waiting AS MATERIALIZED (
        SELECT w.withdrawal_id, w.user_id, w.amount, l.value ->> 'name' AS name,
          CAST(l.value ->> 'maximum' AS REAL) AS maximum
        FROM withdrawals w INDEXED BY withdrawals_open
        JOIN json_each(${JSON.stringify(maxima)}) l
          ON l.value ->> 'name' IN (w.asset, ${tokenNameOf("w.asset")})
        WHERE w.chain = ${chain} AND w.status ${IN_FLIGHT}),
      had AS MATERIALIZED (
        SELECT o.user_id, o.name, total(p.amount) AS amount
        FROM (SELECT DISTINCT user_id, name FROM waiting) o
        LEFT JOIN withdrawals p INDEXED BY withdrawals_user ON p.user_id = o.user_id
          AND p.created_at >= ${NOW} - ${ORDERED_WITHIN_MS} AND p.chain = ${chain}
          AND o.name IN (p.asset, ${tokenNameOf("p.asset")})
          AND p.status IN ('submitted', 'settled') AND p.updated_at >= ${NOW} - ${DAY_MS}
        GROUP BY o.user_id, o.name)
      SELECT DISTINCT hex(w.withdrawal_id) AS id FROM waiting w JOIN had USING (user_id, name)
      WHERE w.amount + had.amount > w.maximum`,
  );
  return rows.map(({ id }) => id);
}

/** The tokens with an open alert that still refuse. Closes the alerts of the others. */
export async function readRefusingTokens(context: HeadView): Promise<string[]> {
  const { db, chain } = context;
  const alerts = await all<{ token: string; asset: AssetKey | null }>(
    db,
    sql`SELECT a.token, (SELECT w.asset FROM withdrawals w INDEXED BY withdrawals_open
        WHERE w.chain = ${chain.chain} AND w.status ${IN_FLIGHT}
          AND ${tokenNameOf("w.asset")} = a.token ORDER BY w.created_at LIMIT 1) AS asset
      FROM (SELECT substr(subject, length(${chain.chain}) + 2) AS token FROM alerts
        WHERE kind = 'token_refuses' AND resolved_at IS NULL
          AND substr(subject, 1, length(${chain.chain}) + 1) = ${tokenSubject(chain.chain, "")}) a`,
  );
  const refusing: string[] = [];
  for (const { token, asset } of alerts)
    if (asset !== null && (await refuses(context, asset))) refusing.push(token);
    else await clearAlert(db, "token_refuses", tokenSubject(chain.chain, token));
  return refusing;
}

/** Drops what concerns tokens that refuse now, and raises an alert for each such token. */
export async function withoutRefused(
  context: HeadView,
  { chosen, missing }: Choice,
): Promise<Choice> {
  const { db, chain } = context;
  const refusing = new Set<string>();
  for (const [token, [job]] of Map.groupBy(chosen, ({ asset }) => tokenName(asset))) {
    if (job === undefined || !(await refuses(context, job.asset))) continue;
    refusing.add(token);
    const detail = `${token} refuses every transfer; its withdrawals wait until it accepts them again`;
    await raiseAlert(db, "token_refuses", tokenSubject(chain.chain, token), detail);
  }
  const accepted = (asset: AssetKey) => !refusing.has(tokenName(asset));
  return {
    chosen: chosen.filter(({ asset }) => accepted(asset)),
    missing: new Map([...missing].filter(([asset]) => accepted(asset))),
  };
}

function refuses(context: HeadView, asset: AssetKey): Promise<boolean> {
  const { endpoint, settings, chain } = context;
  return refusesTransfers(endpoint, chain, tokenOf(settings, chain, asset));
}
