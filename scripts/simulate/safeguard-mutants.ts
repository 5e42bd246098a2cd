/** Source patches that undo a guard of the maker's safeguards or of approvals. */
import type { Mutant } from "./mutants.ts";

export const SAFEGUARD_MUTANTS: readonly Mutant[] = [
  {
    name: "trip-cancels-nothing",
    file: "src/rfq/accept-quote.ts",
    find: "cancelsOthers = true",
    replace: "cancelsOthers = false",
    breaks: "the match that trips a protection cancels the maker's quotes in its commit",
  },
  {
    name: "trips-one-late",
    file: "migrations",
    find: "WHERE matches - f.matches_before >= max_matches OR",
    replace: "WHERE matches - f.matches_before > max_matches OR",
    breaks: "a protection trips with the match that reaches its limit",
  },
  {
    name: "window-never-ends",
    file: "migrations",
    find: "AND c.at > NEW.at - protections.window_secs * 1000",
    replace: "AND c.at > NEW.at - protections.window_secs * 1000000",
    breaks: "a match that has left the window does not count",
  },
  {
    name: "accept-ignores-timer",
    file: "migrations",
    find: "WHERE t.credential = s.credential AND t.cancel_at <= NEW.at",
    replace: "WHERE 0",
    breaks: "no match is made from a timer's instant on",
  },
  {
    name: "nothing-waits-for-approval",
    file: "src/auth/exposure.ts",
    find: "      AND status ${NOT_RETURNED}",
    replace: "      AND status IN ('queued')",
    breaks: "splitting a withdrawal does not avoid the approval",
  },
  {
    name: "waiting-withdrawal-released",
    file: "src/archive/release.ts",
    find: "AND w.status ${UNFINISHED})",
    replace: "AND w.status IN ('queued', 'submitted'))",
    breaks: "a transfer whose record can still move is not released",
  },
  {
    name: "disconnect-cancels-nothing",
    file: "src/rfq/cancel-on-disconnect.ts",
    find: "which: () => sql`maker_id",
    replace: "which: () => sql`0 AND maker_id",
    breaks: "the end of an armed socket cancels its key's quotes",
  },
  {
    name: "tripped-maker-quotes",
    file: "migrations",
    find: "AND (p.tripped_at IS NOT NULL AND ifnull(p.blocked_until > NEW.at, 1))",
    replace: "AND 0",
    breaks: "a tripped maker places no quote",
  },
  {
    name: "quote-outlives-its-socket",
    file: "migrations",
    find: "OR EXISTS (SELECT 1 FROM armed_sockets a WHERE a.socket_id = NEW.socket_id)",
    replace: "OR 1",
    breaks: "a quote that arrived on a socket is not placed after its end",
  },
];
