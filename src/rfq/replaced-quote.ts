/** The quote that a new one replaces, over a command's columns and `requests r`. */
import { type Columns, type Expr, expr, type Sql, sql } from "../platform/sql.ts";
import { type PlaceQuote, reject, type Result } from "./command.ts";
import { usable } from "../ledger/post.ts";
import { quoteNotOpen } from "./rejections.ts";
import { reserveAssetOf } from "./quote-command.ts";
import type { QuoteStatus } from "./statuses.ts";

type Replacing = Columns<
  "quote_id" | "replaces" | "maker_id" | "request_id" | "side" | "reserve_asset" | "backing" | "at"
>;

/** Condition: the command replaces no quote, or one that it may. */
export function replaceable(c: Replacing): Expr {
  return expr`${c.replaces} IS NULL OR EXISTS (SELECT 1 FROM quotes o
      WHERE o.quote_id = ${c.replaces} AND o.maker_id = ${c.maker_id}
        AND o.request_id = ${c.request_id} AND o.side = ${c.side}
        AND o.status = 'open' AND o.expires_at > ${c.at})`;
}

/** 1 if the command replaces a quote, whose share of each limit the new one may use. */
export function replacedCount(c: Replacing): Expr {
  return expr`${c.replaces} IS NOT NULL`;
}

/** What its reserve adds to the maker's funds, if both reserve the same asset. */
export function replacedReserve(c: Replacing): Expr {
  return expr`ifnull((SELECT o.reserve FROM quotes o
    WHERE o.quote_id = ${c.replaces}
      AND (o.complement IS NULL) = (${c.backing} IS NULL)), 0)`;
}

/** The maker's funds with that reserve, as decimal text. */
export function usableText(c: Replacing): Expr {
  return expr`CAST(ifnull((SELECT ${usable()} FROM accounts a WHERE a.owner = ${c.maker_id}
    AND a.asset = ${reserveAssetOf(c)} AND a.kind = 'available'), 0) + ${replacedReserve(c)} AS TEXT)`;
}

/** The quote that a command replaces: owner, terms, status and match. Null if there is none. */
type Replaced = readonly [own: number, fits: number, status: QuoteStatus, matchId: string | null];

export function replacedFact(c: Replacing): Expr {
  return expr`SELECT json_array(o.maker_id = ${c.maker_id},
      o.request_id = ${c.request_id} AND o.side = ${c.side},
      iif(o.status = 'open' AND o.expires_at <= ${c.at}, 'expired', o.status),
      (SELECT hex(m.match_id) FROM matches m WHERE m.quote_id = o.quote_id)) || ''
    FROM quotes o WHERE o.quote_id = ${c.replaces}`;
}

export function notReplaceable(command: PlaceQuote, replaced: string | null): Result | undefined {
  const id = command.replaces ?? "";
  if (replaced === null) return reject("quote_unknown", `There is no quote ${id}.`);
  // Safe cast: `replacedFact` builds the array.
  const [own, fits, status, matchId] = JSON.parse(replaced) as Replaced;
  if (own !== 1) return reject("not_quote_owner", "The quote to replace belongs to someone else.");
  if (fits !== 1)
    return reject("replace_mismatch", `Quote ${id} is of another request or the other side.`);
  return status === "open" ? undefined : quoteNotOpen(id, status, matchId);
}

/** Ends it, and with it the promise of its reserve. */
export function endReplaced(c: Replacing & Columns<"placed_group">): Sql {
  return sql`UPDATE quotes SET status = 'cancelled', cancel_reason = 'replaced',
      replaced_by = ${c.quote_id}, ended_by = ${c.quote_id}, ended_group = ${c.placed_group}
    WHERE quote_id = ${c.replaces}`;
}
