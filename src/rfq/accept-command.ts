/** An accept as the service carries it to the database: a row of `accept_commands`. */
import { ACTOR_FIELDS, actorRow } from "../auth/may-write.ts";
import type { CommandRow } from "../platform/command-rows.ts";
import type { Config } from "../platform/config.ts";
import { atom, type Columns, type Expr, expr, jsonArray } from "../platform/sql.ts";
import type { Accept } from "./command.ts";
import { bestQuote, limitOf } from "./price-limit.ts";
import { commitBefore } from "./rejections.ts";

export const ACCEPT_FIELDS = {
  match_id: "blob",
  requester_id: "blob",
  ...ACTOR_FIELDS,
  quote_id: "blob",
  request_id: "blob",
  side: "text",
  price: "integer",
  received_at: "integer",
  commit_before: "integer",
  not_after: "integer",
  cancels_others: "integer",
  standing: "text",
} as const;
export type AcceptField = keyof typeof ACCEPT_FIELDS;

/** What a row also has: the stamps of its group, and of the wanted quote `q` what never changes. */
export const FROM_QUOTE = {
  at: atom("g.at"),
  accepted_group: atom("g.seq"),
  quote_id: atom("q.quote_id"),
  request_id: atom("q.request_id"),
  maker_id: atom("q.maker_id"),
  credential: atom("q.credential"),
  asset: atom("q.asset"),
  complement: atom("q.complement"),
  side: atom("q.side"),
  price: atom("q.price"),
  amount: expr`CAST(q.amount AS INTEGER)`,
  usdc_amount: atom("q.usdc_amount"),
  taker_fee: atom("q.taker_fee"),
  maker_fee: atom("q.maker_fee"),
  reserve: atom("q.reserve"),
  reserve_asset: atom("q.reserve_asset"),
  maker_label: atom("q.label"),
} as const;
/** `at` is the instant of the group. */
export type AcceptColumns = Columns<AcceptField | "at">;

export function acceptRow(
  command: Accept,
  settings: Pick<Config, "RFQ_COMMAND_MAX_WAIT_MS">,
  cancelsOthers: boolean,
): CommandRow<AcceptField> {
  const { actor, matchId, receivedAt } = command;
  const named =
    command.op === "accept"
      ? { quote_id: command.quoteId, request_id: null, side: null, price: null }
      : { quote_id: null, request_id: command.requestId, side: command.side, price: command.price };
  return {
    match_id: matchId,
    requester_id: actor.userId,
    ...actorRow(actor),
    ...named,
    received_at: receivedAt,
    commit_before: commitBefore(receivedAt, settings),
    not_after: command.notAfter ?? null,
    cancels_others: cancelsOthers ? 1 : 0,
    standing: null,
  };
}

/** Chosen by the guard, so that a quote which is better at the commit is not missed. */
export function wantedQuote(c: AcceptColumns): Expr {
  return expr`coalesce(${c.quote_id}, ${bestQuote(limitOf(c), c.at)})`;
}

/** What the requester has agreed to, over `standing_accepts a` and `requests r`. */
export const STANDING_TERMS = jsonArray([
  atom("hex(a.request_id)"),
  atom("hex(r.requester_id)"),
  atom("r.asset"),
  atom("r.amount"),
  atom("CAST(r.usdc_amount AS TEXT)"),
  atom("a.side"),
  atom("a.price"),
  atom("hex(a.api_key_id)"),
  atom("a.session_epoch"),
  atom("a.session_expires_at"),
]);

/** Over `requests r`: the standing accept for which the command was made is as it was then. */
export function standingUnchanged(c: AcceptColumns): Expr {
  return expr`${c.standing} IS NULL OR EXISTS (SELECT 1 FROM standing_accepts a
    WHERE a.request_id = r.request_id AND ${STANDING_TERMS} = ${c.standing})`;
}
