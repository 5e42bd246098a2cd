/**
 * Places a firm quote. The maker's side is promised in the same operation, so an accepted quote
 * always settles.
 *
 * All quotes of a group are placed by one statement. It inserts their commands into
 * `quote_commands`, whose trigger (`quote_commands_place`) takes one command after the other: it
 * checks PRECONDITIONS and places the quote, whose own trigger (`quotes_promise`) promises the
 * reserve. So each command sees what those before it did. The trigger skips a command whose
 * preconditions do not hold, and stores none.
 *
 * The trigger is generated from this file, and a test compares it with the last migration that
 * creates it. To add a precondition:
 *
 * 1. Add it to PRECONDITIONS (quote-preconditions.ts), at its place in the order of errors.
 * 2. If it needs a value of the command, add a field to QUOTE_FIELDS and `quoteCommandRow`
 *    (quote-command.ts), and a column to `quote_commands` (a new migration).
 * 3. Write the migration of the trigger with `npm run migrations`.
 * 4. Test it: `npm run mutants -- --only quote_commands_place` drops it.
 *
 * What else a placed quote does belongs into `placed`.
 */
import { type Group, NOW } from "../platform/commit.ts";
import { boundColumns, columnsOf, type CommandRow, selectRows } from "../platform/command-rows.ts";
import type { Config } from "../platform/config.ts";
import { questionOf } from "../platform/preconditions.ts";
import { availableText } from "../ledger/post.ts";
import {
  and,
  atom,
  type Columns,
  type Expr,
  expr,
  raw,
  select,
  type Sql,
  sql,
  uuid,
} from "../platform/sql.ts";
import { actorFacts, rowCredential } from "../auth/may-write.ts";
import { timerFacts } from "./cancel-timer.ts";
import { type PlaceQuote, reject } from "./command.ts";
import { earlierFacts } from "./idempotency.ts";
import { rangeFacts } from "./last-price.ts";
import {
  type GroupEffects,
  hexId,
  type BookOperation,
  type PlacedQuote,
} from "./book-operation.ts";
import { protectionFacts } from "./protection-record.ts";
import { REQUEST_VENUE } from "./rejections.ts";
import type { QuoteRow } from "./rfq-records.ts";
import { endedAs } from "./ended.ts";
import { endReplaced, replacedFact, usableText } from "./replaced-quote.ts";
import type { RequestTerms } from "./request-terms.ts";
import { limitFacts } from "./trade-limits.ts";
import {
  complementOf,
  QUOTE_FIELDS,
  type QuoteField,
  quoteCommandRow,
  quoteTerms,
} from "./quote-command.ts";
import {
  PRECONDITIONS,
  type Facts,
  type Given,
  traderOfCommand,
  outbidBy,
  nextOpenBound,
} from "./quote-preconditions.ts";

export function placeQuote(
  command: PlaceQuote,
  request: RequestTerms,
  settings: Config,
): BookOperation {
  const { actor, quoteId, requestId } = command;
  const terms = quoteTerms(command, request, settings);
  const { side } = terms;
  const given = { command, request, terms, settings };
  const row = quoteCommandRow(command, terms, settings);
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: { kind: "quote", id: quoteId },
    binding: true,
    ...(side === null ? {} : { mayFulfil: { requestId, side, price: command.price } }),
    names: command.replaces === null ? [requestId] : [requestId, command.replaces],
    set: { kind: PLACED_QUOTES, row },
    statements: (group) => PLACED_QUOTES.statements(group, [row]),
    result: (effects) => {
      const times = effects.quotes.get(hexId(quoteId));
      if (times === undefined) return undefined;
      const placedRow = newQuoteRow(given, times);
      return { ok: true, kind: "quote", row: taken(given, placedRow, effects), replayed: false };
    },
    rejection: () => {
      // Each field is one parameter, because D1 takes a hundred.
      const bound = { ...boundColumns(QUOTE_FIELDS, row), at: NOW };
      const c = { ...columnsOf(QUOTE_FIELDS, "c"), at: NOW };
      return questionOf({
        preconditions: PRECONDITIONS.map((precondition) => ({
          expr: precondition.expr(c),
          reject: (facts: Facts) => precondition.reject(facts, given),
        })),
        facts: {
          instant: NOW,
          status: expr`iif(r.status = 'open' AND r.expires_at <= ${NOW}, 'expired', r.status)`,
          available: usableText(c),
          replaced: replacedFact(c),
          complement: complementOf(atom("r.asset")),
          asset_available: availableText(actor.userId, atom("r.asset")),
          ...protectionFacts(actor.userId),
          ...timerFacts(actor),
          ...limitFacts(traderOfCommand(c), REQUEST_VENUE),
        },
        apart: {
          ...actorFacts(actor),
          ...earlierFacts(command),
          ...rangeFacts(bound, request.asset),
        },
        // In this order, because SQLite does not change it: the other one reads all requests.
        from: sql`FROM (SELECT ${select(boundColumns(QUOTE_FIELDS, row))}) c CROSS JOIN requests r
          WHERE r.request_id = c.request_id`,
        missing: () => reject("request_unknown", `There is no request ${requestId}.`),
      });
    },
  };
}

/** The columns of `newQuoteColumns`, as the maker reads them. */
function newQuoteRow({ command, request, terms }: Given, times: PlacedQuote): QuoteRow {
  if (terms.side === null) throw new Error("a quote without a side was placed");
  return {
    quote_id: hexId(command.quoteId),
    request_id: hexId(command.requestId),
    asset: request.asset,
    amount: terms.amount.toString(),
    side: terms.side,
    price: command.price,
    usdc_amount: terms.usdcAmount.toString(),
    fee: terms.makerFee.toString(),
    status: "open",
    ...times,
    reserve: terms.reserve.toString(),
    label: command.label ?? null,
    close_reason: null,
    replaced_by: null,
  };
}

/** As it is if the same group accepted it. The group reports matches as requesters see them. */
function taken({ command, terms }: Given, row: QuoteRow, { matches }: GroupEffects): QuoteRow {
  const match = [...matches.values()].find(({ quote_id: id }) => id === row.quote_id);
  if (match === undefined) return row;
  const own = {
    complement: row.complement ?? null,
    fee: terms.makerFee.toString(),
    role: "maker",
    label: command.label ?? null,
  } as const;
  return { ...row, status: "accepted", close_reason: "accepted", match: { ...match, ...own } };
}

const PLACED_QUOTES = {
  statements: (group: Group, rows: readonly CommandRow<QuoteField>[]): readonly Sql[] => [
    sql`INSERT INTO quote_commands (${raw(Object.keys(QUOTE_FIELDS).join(", "))}, at, placed_group)
      SELECT c.*, g.at, g.seq
      FROM commit_groups g CROSS JOIN (${selectRows(QUOTE_FIELDS, rows)}) c
      WHERE g.group_id = ${uuid(group.id)}`,
  ],
};

const PRECONDITIONS_AT_ONCE = 14;

/** What the trigger of `quote_commands` does with each row that is about to be inserted. */
export function quoteTrigger(): Sql[] {
  const c = { ...columnsOf(QUOTE_FIELDS, "NEW"), ...columnsOf(STAMPS, "NEW") };
  const conditions = PRECONDITIONS.map((precondition) => precondition.expr(c));
  // The command is skipped, and the statement goes on with the next one.
  const skippedUnless = (some: readonly Expr[]) => sql`SELECT RAISE(IGNORE) WHERE NOT EXISTS (
      SELECT 1 FROM requests r WHERE r.request_id = ${c.request_id} AND ${and(some)})`;
  return [
    // Two parts, because D1 bounds the depth of an expression, and each AND is a level.
    skippedUnless(conditions.slice(0, PRECONDITIONS_AT_ONCE)),
    skippedUnless(conditions.slice(PRECONDITIONS_AT_ONCE)),
    ...placed(c),
    // Nothing is stored here. What was done above stays.
    sql`SELECT RAISE(IGNORE)`,
  ];
}

const STAMPS = { at: "integer", placed_group: "integer" } as const;

/**
 * The statements that place the quote, once all preconditions hold. The quotes that it replaces and
 * outbids end first, so that what they reserve is available again (the triggers of `quotes`).
 */
function placed(c: Columns<QuoteField | keyof typeof STAMPS>): Sql[] {
  // Not a SELECT from requests: SQLite copies its rows to a temporary table before it inserts them
  // into a table with triggers, but not these values.
  const ofRequest = (column: "asset" | "expires_at") =>
    expr`SELECT ${raw(column)} FROM requests WHERE request_id = ${c.request_id}`;
  return [
    endReplaced(c),
    sql`UPDATE quotes SET status = ${endedAs("cancelled", c)},
        cancel_reason = iif(expires_at <= ${c.at}, NULL, 'outbid'),
        ended_by = ${c.quote_id}, ended_group = ${c.placed_group}
      WHERE quote_id = ${outbidBy(c)}`,
    sql`INSERT INTO quotes (quote_id, request_id, maker_id, credential, asset, amount, side, price,
        usdc_amount, taker_fee, maker_fee, reserve, status, opened_at, expires_at,
        opened_group, label, key_hash, terms_hash, maker_open, complement)
      VALUES (${c.quote_id}, ${c.request_id}, ${c.maker_id}, ${rowCredential(c.maker_id, c)},
        ${ofRequest("asset")}, ${c.amount}, ${c.side}, ${c.price},
        ${c.usdc_amount}, ${c.taker_fee}, ${c.maker_fee}, ${c.reserve}, 'open', ${c.at},
        min(${ofRequest("expires_at")}, min(${c.at}, ${c.received_at}) + ${c.life_ms}),
        ${c.placed_group}, ${c.label}, ${c.key_hash}, ${c.terms_hash}, ${nextOpenBound(c)},
        iif(${c.backing} IS NULL, NULL, ${complementOf(ofRequest("asset"))}))`,
  ];
}
