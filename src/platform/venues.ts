import { atom, type Expr } from "./sql.ts";

/** Venue ids are configuration (VENUES). The edge refuses others (http/define-route.ts). */
export type Venue = string;

/** Neither `:` nor `;` is in it, because an asset's key is `<venue>:<asset_id>`. */
export const VENUE_ID = /^[a-z][a-z0-9_]{0,31}$/;

/** Venues that one deployment serves. */
export const MAX_VENUES = 32;

/** The venue of the asset key in a column, for a token. */
export function venueOf(column: string): Expr {
  return atom(`substr(${column}, 1, instr(${column}, ':') - 1)`);
}
