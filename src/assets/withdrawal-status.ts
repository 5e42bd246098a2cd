/**
 * Sets of the statuses of a withdrawal. A partial index serves a query only if it has the same
 * text, so these are the texts of the indexes in migrations/.
 */
import { raw } from "../platform/sql.ts";

/** The payer may send it, or has sent it. */
export const IN_FLIGHT = raw("IN ('queued', 'submitted')");
/** Its amount is set aside. */
export const UNFINISHED = raw("IN ('awaiting_approval', 'queued', 'submitted')");
/** It was paid or will be. Its amount does not come back. */
export const NOT_RETURNED = raw("IN ('queued', 'submitted', 'settled')");
