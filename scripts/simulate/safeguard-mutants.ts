/** Source patches that undo a guard of the maker's safeguards, of approvals and of replaces. */
import type { Mutant } from "./mutants.ts";

export const SAFEGUARD_MUTANTS: readonly Mutant[] = [
  {
    name: "trip-cancels-nothing",
    file: "src/rfq/accept-quote.ts",
    find: "  cancelsOthers = true,\n",
    replace: "  cancelsOthers = false,\n",
    breaks: "the match that trips a protection cancels the maker's quotes in its commit",
  },
  {
    name: "trips-one-late",
    file: "migrations/0001_schema.sql",
    find: "WHERE matches - f.matches_before >= max_matches OR",
    replace: "WHERE matches - f.matches_before > max_matches OR",
    breaks: "a protection trips with the match that reaches its limit",
  },
  {
    name: "window-never-ends",
    file: "migrations/0001_schema.sql",
    find: "AND c.at > NEW.at - protections.window_secs * 1000",
    replace: "AND c.at > NEW.at - protections.window_secs * 1000000",
    breaks: "a match that has left the window does not count",
  },
  {
    name: "tripped-maker-quotes",
    file: "src/rfq/protection-record.ts",
    find: "return expr`NOT EXISTS (SELECT 1 FROM protections p",
    replace: "return expr`1 OR NOT EXISTS (SELECT 1 FROM protections p",
    breaks: "a tripped maker places no quote",
  },
  {
    name: "accept-ignores-timer",
    file: "src/rfq/accept-quote.ts",
    find: 'expr: timerNotPassed(atom("s.credential"), at),',
    replace: 'expr: expr`1 OR ${timerNotPassed(atom("s.credential"), at)}`,',
    breaks: "no match is made from a timer's instant on",
  },
  {
    name: "timer-moves-after-its-end",
    file: "src/rfq/cancel-after.ts",
    find: "        WHERE cancel_at > ${NOW}\n",
    replace: "        WHERE cancel_at > 0\n",
    breaks: "no quote comes back to life when its timer is set again",
  },
  {
    name: "disconnect-cancels-nothing",
    file: "src/rfq/armed-sockets.ts",
    find: "which: () => sql`maker_id",
    replace: "which: () => sql`0 AND maker_id",
    breaks: "the end of an armed socket cancels its key's quotes",
  },
  {
    name: "quote-outlives-its-socket",
    file: "src/rfq/armed-sockets.ts",
    find: "return expr`${socketId} IS NULL OR EXISTS",
    replace: "return expr`1 OR ${socketId} IS NULL OR EXISTS",
    breaks: "a quote that arrived on a socket is not placed after its end",
  },
  {
    name: "approve-the-cancelled",
    file: "src/custody/approve-withdrawal.ts",
    find: "w.status = 'awaiting_approval' AND w.approval_expires_at > ${at}",
    replace: "w.status IN ('awaiting_approval', 'cancelled') AND w.approval_expires_at > ${at}",
    breaks: "a cancelled withdrawal is not approved",
  },
  {
    name: "nothing-waits-for-approval",
    file: "src/auth/exposure.ts",
    find: "      AND status IN ('queued', 'submitted', 'settled')",
    replace: "      AND status IN ('queued')",
    breaks: "splitting a withdrawal does not avoid the approval",
  },
  {
    name: "waiting-withdrawal-released",
    file: "src/archive/release.ts",
    find: "AND w.status IN ('awaiting_approval', 'queued', 'submitted'))",
    replace: "AND w.status IN ('queued', 'submitted'))",
    breaks: "a transfer whose record can still move is not released",
  },
  {
    name: "replaced-stays-open",
    file: "src/rfq/replaced-quote.ts",
    find: "        AND o.status = 'open' AND o.expires_at > ${c.at})`;",
    replace: "        AND o.status <> 'accepted')`;",
    breaks: "a quote is replaced once",
  },
];
