/** Cancels a quote. One UPDATE serves all of a group. */
import { type Group, NOW } from "../platform/commit.ts";
import { boundColumns, columnsOf, type CommandRow, selectRows } from "../platform/command-rows.ts";
import { questionOf } from "../platform/preconditions.ts";
import { and, atom, type Columns, type Expr, expr, type Sql, sql, uuid } from "../platform/sql.ts";
import { type CancelQuote, reject, type Result } from "./command.ts";
import { hexId, type BookOperation } from "./book-operation.ts";
import type { QuoteStatus } from "./statuses.ts";
import {
  ACTOR_FIELDS,
  actorFacts,
  type ActorFacts,
  actorRow,
  rowMayWrite,
} from "../auth/may-write.ts";
import { actorRejected, cancelled, quoteNotOpen } from "./rejections.ts";

const CANCEL_FIELDS = {
  operation_id: "blob",
  quote_id: "blob",
  user_id: "blob",
  ...ACTOR_FIELDS,
} as const;
type Field = keyof typeof CANCEL_FIELDS;

export function cancelQuote(command: CancelQuote): BookOperation {
  const { actor, operationId, quoteId } = command;
  const row = {
    operation_id: operationId,
    quote_id: quoteId,
    user_id: actor.userId,
    ...actorRow(actor),
  };
  return {
    userId: actor.userId,
    receivedAt: command.receivedAt,
    makes: null,
    names: [quoteId],
    set: { kind: CANCELLED_QUOTES, row },
    statements: (group) => CANCELLED_QUOTES.statements(group, [row]),
    result: (effects) =>
      effects.endedBy.has(hexId(operationId)) ? cancelled(quoteId, { replayed: false }) : undefined,
    rejection: () => {
      const bound = { ...boundColumns(CANCEL_FIELDS, row), at: NOW };
      return questionOf({
        preconditions: PRECONDITIONS.map((precondition) => ({
          expr: precondition.expr(bound),
          reject: (facts: Facts) => precondition.reject(facts, command),
        })),
        facts: {
          status: expr`iif(quotes.status = 'open'
            AND quotes.expires_at <= ${NOW}, 'expired', quotes.status)`,
          match_id: expr`SELECT hex(m.match_id) FROM matches m WHERE m.quote_id = quotes.quote_id`,
        },
        apart: actorFacts(actor),
        from: sql`FROM quotes WHERE quotes.quote_id = ${uuid(quoteId)}`,
        missing: () => reject("quote_unknown", `There is no quote ${quoteId}.`),
      });
    },
  };
}

/** Either of two commands that name one quote may cancel it. The other finds it cancelled. */
const CANCELLED_QUOTES = {
  statements: (group: Group, rows: readonly CommandRow<Field>[]): readonly Sql[] => {
    const c = { ...columnsOf(CANCEL_FIELDS, "c"), at: atom("g.at") };
    const guard = and(PRECONDITIONS.map((precondition) => precondition.expr(c)));
    return [
      // No CROSS JOIN: it would begin with `quotes`, which is to be found by its id.
      sql`UPDATE quotes SET status = 'cancelled', ended_by = c.operation_id, ended_group = g.seq
        FROM commit_groups g, (${selectRows(CANCEL_FIELDS, rows)}) c
        WHERE g.group_id = ${uuid(group.id)} AND quotes.quote_id = c.quote_id AND ${guard}`,
    ];
  },
};

type Facts = ActorFacts & { readonly status: QuoteStatus; readonly match_id: string | null };

/** Over `quotes` and the columns `c` of the command; `at` is the instant of the group. */
const PRECONDITIONS: readonly {
  readonly expr: (c: Columns<Field | "at">) => Expr;
  readonly reject: (facts: Facts, command: CancelQuote) => Result | undefined;
}[] = [
  {
    expr: (c) => rowMayWrite(c.user_id, c, c.at),
    reject: (facts, { actor }) => actorRejected(actor, facts),
  },
  {
    expr: (c) => expr`quotes.maker_id = ${c.user_id}`,
    reject: () => reject("not_quote_owner", "The quote belongs to someone else."),
  },
  {
    expr: () => expr`quotes.status <> 'cancelled'`,
    reject: (_, { quoteId }) => cancelled(quoteId, { replayed: true }),
  },
  {
    expr: (c) => expr`quotes.status = 'open' AND quotes.expires_at > ${c.at}`,
    reject: ({ status, match_id: matchId }, { quoteId }) => quoteNotOpen(quoteId, status, matchId),
  },
];
