/** The best quote at a price or better, which an accept by price takes. */
import type { Side } from "../assets/asset-fields.ts";
import { atom, type Columns, type Expr, expr, raw, sql, TRUE } from "../platform/sql.ts";
import { timerNotPassed } from "./cancel-timer.ts";
import type { AcceptPrice } from "./command.ts";

/** The same as SQL. Any price will do if it is null. */
type Limit = { readonly request: Expr; readonly side: Expr; readonly price: Expr | null };

/**
 * The best quote that an accept could take at this instant, of equal prices the oldest. Quotes of
 * one commit are equally old, so that their ids decide, as in lists. Each side has its own SELECT,
 * because an index then has the best quote first.
 */
export function bestQuote(limit: Limit, at: Expr): Expr {
  const ofSide = (side: Side, best: string, within: Expr) => sql`SELECT quote_id FROM (
    SELECT o.quote_id FROM quotes o INDEXED BY quotes_request_status
    WHERE o.request_id = ${limit.request} AND o.status = 'open' AND o.side = ${raw(`'${side}'`)}
      AND o.side = ${limit.side} AND o.stuck_at IS NULL AND ${within}
      AND o.expires_at > ${at} AND ${timerNotPassed(atom("o.credential"), at)}
    ORDER BY ${raw(best)}, o.opened_at, o.quote_id LIMIT 1)`;
  const { price } = limit;
  return expr`${ofSide("Bid", "o.price", price === null ? TRUE : expr`o.price <= ${price}`)}
    UNION ALL
    ${ofSide("Ask", "o.price DESC", price === null ? TRUE : expr`o.price >= ${price}`)}`;
}

/** The side of a limit that names none is the request's. NULL if that is two-way. */
export function limitOf(c: Columns<"request_id" | "side" | "price">): Limit {
  const own = expr`SELECT nullif(side, 'TwoWay') FROM requests WHERE request_id = ${c.request_id}`;
  return { request: c.request_id, side: expr`coalesce(${c.side}, ${own})`, price: c.price };
}

/** Whether a trade is as good as a repeated accept wants. */
export function isWithin(
  trade: { readonly side: Side; readonly price: number },
  { side, price }: Pick<AcceptPrice, "side" | "price">,
): boolean {
  if (side !== null && trade.side !== side) return false;
  return trade.side === "Ask" ? trade.price >= price : trade.price <= price;
}
