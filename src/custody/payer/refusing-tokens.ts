/**
 * Holds back payments of a token that refuses every transfer: it is paused, or it has blacklisted
 * the vault. The vault would skip each of them, at the price of their gas. No destination is to
 * blame, so nothing fails.
 */
import { clearAlert, raiseAlert } from "../../platform/alert.ts";
import { tokenOf } from "../../chain/token.ts";
import { refusesTransfers } from "../../chain/vault-calls.ts";
import type { AssetKey } from "../../assets/asset.ts";
import { all, first, sql } from "../../platform/sql.ts";
import { type TokenName, tokenName, tokenNameOf, tokenSubject } from "../token-name.ts";
import type { Choice } from "./choose-payments.ts";
import type { HeadView } from "./payer-context.ts";

/** The tokens with an open alert that still refuse. Closes the alerts of the others. */
export async function readRefusingTokens(context: HeadView): Promise<TokenName[]> {
  const { db, chain } = context;
  const alerts = await all<{ token: TokenName }>(
    db,
    sql`SELECT substr(subject, length(${chain.chain}) + 2) AS token FROM alerts
      WHERE kind = 'token_refuses' AND resolved_at IS NULL
        AND substr(subject, 1, length(${chain.chain}) + 1) = ${tokenSubject(chain.chain, "")}`,
  );
  const refusing: TokenName[] = [];
  for (const { token } of alerts) {
    const waiting = await first<{ asset: AssetKey }>(
      db,
      sql`SELECT w.asset FROM withdrawals w INDEXED BY withdrawals_open
        WHERE w.chain = ${chain.chain} AND w.status IN ('queued', 'submitted')
          AND ${tokenNameOf("w.asset")} = ${token} ORDER BY w.created_at LIMIT 1`,
    );
    if (waiting !== undefined && (await refuses(context, waiting.asset))) refusing.push(token);
    else await clearAlert(db, "token_refuses", tokenSubject(chain.chain, token));
  }
  return refusing;
}

/** Drops what concerns tokens that refuse now, and raises an alert for each such token. */
export async function withoutRefused(
  context: HeadView,
  { chosen, missing }: Choice,
): Promise<Choice> {
  const { db, chain } = context;
  const refusing = new Set<TokenName>();
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
