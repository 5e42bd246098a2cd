/** Reads and changes the account policy (policy.ts). */
import type * as z from "zod";
import { toHex } from "../assets/amount.ts";
import type { SessionActor } from "../platform/actor.ts";
import { NOW } from "../platform/commit.ts";
import type { Config } from "../platform/config.ts";
import { problem, unavailable } from "../platform/problem.ts";
import { all, type Expr, expr, first, select, sql, uuid } from "../platform/sql.ts";
import { toWireTimeOrNull } from "../platform/time.ts";
import { type Alongside, recordOf } from "../audit/audit.ts";
import { sumText, usedByUser, withdrawnLastDay } from "./exposure.ts";
import { holdMsOf } from "./hold.ts";
import { commitOwnChange } from "./own-change.ts";
import {
  DEFAULT_POLICY,
  mergePolicy,
  type Policy,
  POLICY_COLUMNS,
  type PolicyChange,
  policyOf,
  type PolicyRow,
  type PolicyState,
  policyView,
} from "./policy.ts";
import { stepUp, type StepUpFields } from "./step-up.ts";

type Stored = Awaited<ReturnType<typeof readStored>>;

async function readStored(db: D1Database, userId: string) {
  const user = uuid(userId);
  const [rows, sums] = await Promise.all([
    all<PolicyRow & { waits: number; version: number }>(
      db,
      sql`SELECT ${select(POLICY_COLUMNS)}, active_from > ${NOW} AS waits, version
        FROM account_policies WHERE user_id = ${user} ORDER BY active_from`,
    ),
    first<{ trade: string; withdraw: string }>(
      db,
      sql`SELECT ${sumText(usedByUser({ user }, NOW))} AS trade,
        ${sumText(withdrawnLastDay(user, NOW))} AS withdraw`,
    ),
  ]);
  const current = rows.findLast(({ waits }) => waits === 0);
  const pending = rows.find(({ waits }) => waits === 1);
  return {
    current: current === undefined ? DEFAULT_POLICY : policyOf(current),
    pending: pending === undefined ? null : policyOf(pending),
    activeFrom: pending?.activeFrom ?? null,
    /** Counts the changes, so that a change applies to what it has read. */
    version: Math.max(0, ...rows.map(({ version }) => version)),
    /** Of the row that applies. Null: the defaults. */
    currentFrom: current?.activeFrom ?? null,
    used: { trade: BigInt(sums?.trade ?? 0), withdraw: BigInt(sums?.withdraw ?? 0) },
  } as const;
}

export async function getPolicy(
  db: D1Database,
  userId: string,
): Promise<z.input<typeof PolicyState>> {
  const { current, pending, activeFrom, used } = await readStored(db, userId);
  return {
    policy: policyView(current),
    pending: pending === null ? null : policyView(pending),
    active_from: toWireTimeOrNull(activeFrom),
    used: { trade_usdc: toHex(used.trade), withdraw_usdc: toHex(used.withdraw) },
  };
}

/** A change is repeated if another one was committed after it had read the policy. */
const MAX_TRIES = 3;

/** Throws `STEP_UP_PROBLEMS`, and `totp_not_enabled` for approvals without TOTP. */
export async function changePolicy(
  db: D1Database,
  settings: Config,
  request: {
    readonly actor: SessionActor;
    readonly change: PolicyChange;
    readonly fields: StepUpFields;
    readonly clientIp: string | undefined;
  },
  alongside?: Alongside,
): Promise<z.input<typeof PolicyState>> {
  const { change, clientIp } = request;
  const { actor, secondFactor } = await stepUp(db, settings, request);
  const { userId } = actor;
  if ((change.withdraw_approval_above ?? null) !== null && secondFactor === "off")
    throw problem(
      "totp_not_enabled",
      "Approvals need TOTP, because only a session with a fresh code can give them.",
    );
  const record = recordOf(actor, "policy_changed", { ip: clientIp, subjectId: userId });
  const user = uuid(userId);
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const stored = await readStored(db, userId);
    const rows = rowsOf(mergePolicy(stored, change), holdMsOf(settings));
    const changed = await commitOwnChange(db, actor, {
      record,
      when: (at) => unchanged(user, stored, at),
      statements: ({ at, applied }) => [
        sql`DELETE FROM account_policies WHERE user_id = ${user} AND ${applied}`,
        ...rows.map(
          ({ afterMs, policy }) =>
            sql`INSERT INTO account_policies (user_id, active_from, version, sessions_trade,
                max_trade_usdc_per_day, withdraw_max_usdc_per_day, withdraw_listed_only,
                withdraw_approval_above)
              SELECT ${user}, ${at} + ${afterMs}, ${stored.version + 1}, ${policy.sessions_trade},
                ${policy.max_trade_usdc_per_day}, ${policy.withdraw_max_usdc_per_day},
                ${policy.withdraw_listed_only}, ${policy.withdraw_approval_above}
              WHERE ${applied}`,
        ),
      ],
      alongside,
    });
    if (changed) return getPolicy(db, userId);
  }
  throw unavailable("none");
}

/** The policy that applies now, and the one that applies after the delay. */
function rowsOf(
  { current, pending }: { current: Policy; pending: Policy | null },
  delayMs: number,
): readonly { readonly afterMs: number; readonly policy: Policy }[] {
  if (pending === null) return [{ afterMs: 0, policy: current }];
  if (delayMs === 0) return [{ afterMs: 0, policy: pending }];
  return [
    { afterMs: 0, policy: current },
    { afterMs: delayMs, policy: pending },
  ];
}

/** Condition: no other change was committed, and no pending policy began to apply. */
function unchanged(user: Expr, { version, currentFrom }: Stored, at: Expr): Expr {
  return expr`coalesce((SELECT max(version) FROM account_policies
      WHERE user_id = ${user}), 0) = ${version}
    AND (SELECT max(active_from) FROM account_policies
      WHERE user_id = ${user} AND active_from <= ${at}) IS ${currentFrom}`;
}
