import type { Side } from "../assets/asset-fields.ts";
import type { Group } from "../platform/commit.ts";
import type { CommandRow } from "../platform/command-rows.ts";
import type { Question } from "../platform/preconditions.ts";
import { type Sql, sql, uuids } from "../platform/sql.ts";
import type { Result } from "./command.ts";
import type { MatchRow, QuoteRow, RequestRow } from "./rfq-records.ts";

/** What a group did, by the rows that it stamped, so also after a lost response. Ids are hex. */
export type GroupEffects = {
  readonly requests: ReadonlyMap<string, RequestRow>;
  readonly quotes: ReadonlyMap<string, PlacedQuote>;
  readonly matches: ReadonlyMap<string, MatchRow>;
  /** Operations that ended a request or a quote. */
  readonly endedBy: ReadonlySet<string>;
  /** Operations that set or removed the price of a standing accept. */
  readonly changedBy: ReadonlySet<string>;
};

/** What the group decided about a quote. The command says the rest. */
export type PlacedQuote = Pick<QuoteRow, "opened_at" | "expires_at" | "complement">;

/**
 * One command of a commit group. `statements` begins with the guard. Everything after it depends on
 * what the guard wrote, so an operation whose guard does not apply writes nothing.
 */
export type BookOperation = {
  readonly userId: string;
  /** When the service received the command, in Unix milliseconds by the clock of the Worker. */
  readonly receivedAt: number;
  /** A quote or an accept. It binds a price to an instant, so it stops while the clock is wrong. */
  readonly binding?: true;
  /** The record that it makes, whose events and report the group needs. */
  readonly makes: { readonly kind: MadeKind; readonly id: string } | null;
  /** The records that the command names. Commands that name the same one keep their order. */
  readonly names: readonly string[];
  /** Set for an operation that shares its statements with all others of its kind in the group. */
  readonly set?: InSet;
  /** Why a standing accept may be fulfilled after it (standing-accept.ts). */
  readonly mayFulfil?: MayFulfil;
  /** What replaces this operation if a constraint refuses it even alone. */
  readonly fallback?: () => BookOperation;
  statements(group: Group): readonly Sql[];
  /** The result, if the guard applied. */
  result(effects: GroupEffects): Result | undefined;
  /** Why the guard did not apply, asked outside the group. Undefined if all preconditions hold. */
  rejection(): Question<Result>;
};

/** A quote is placed on the request, or its requester sets these terms. */
type MayFulfil = { readonly requestId: string } & (
  | { readonly side: Side; readonly price: number }
  | { readonly terms: string }
);

export type MadeKind = "request" | "quote" | "match" | "standing";

/** The ids of the records that a group can have made, by kind. */
export type Made = Readonly<Partial<Record<MadeKind, readonly string[]>>>;

export function madeBy(operations: readonly BookOperation[]): Made {
  const made: Partial<Record<MadeKind, string[]>> = {};
  for (const { makes } of operations) if (makes !== null) (made[makes.kind] ??= []).push(makes.id);
  return made;
}

/** Condition on quote `q`: the group placed it. An index of groups would cost each quote a row. */
export function placedBy(group: Group, { quote: ids = [] }: Made): Sql {
  return sql`q.quote_id IN (${uuids(ids)}) AND q.opened_group = ${group.seq}`;
}

/** An operation as a row of its set. `kind` is a constant of the verb that names the set. */
type InSet = { readonly kind: OperationKind; readonly row: CommandRow<string> };
type OperationKind = {
  statements(group: Group, rows: readonly CommandRow<string>[]): readonly Sql[];
};

/**
 * The statements of a group. Operations of one kind become one set, although others stand between
 * them. An operation never overtakes one of the same user, or one that names the same record.
 */
export function composeOperations(group: Group, operations: readonly BookOperation[]): Sql[] {
  const stages: { readonly kind: OperationKind | undefined; readonly members: BookOperation[] }[] =
    [];
  const latest = new Map<string, number>();
  for (const operation of operations) {
    const keys = [operation.userId, ...operation.names];
    const from = Math.max(0, ...keys.map((key) => latest.get(key) ?? 0));
    const kind = operation.set?.kind;
    const known = stages.findIndex((stage, index) => index >= from && stage.kind === kind);
    const stage = known < 0 ? stages.push({ kind, members: [] }) - 1 : known;
    stages[stage]?.members.push(operation);
    for (const key of keys) latest.set(key, stage);
  }
  return stages.flatMap(({ kind, members }) =>
    kind === undefined
      ? members.flatMap((operation) => operation.statements(group))
      : kind.statements(
          group,
          members.flatMap(({ set }) => (set === undefined ? [] : [set.row])),
        ),
  );
}

/** A UUID as SQLite's `hex()` spells it. */
export function hexId(id: string): string {
  return id.replaceAll("-", "").toUpperCase();
}
