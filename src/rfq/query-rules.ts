/** Rules over several parameters of a query, for `.refine(rule, error)`. */

export const venueOfAsset = { error: "is required with asset_id", path: ["venue_id"] };
export const hasVenue = (query: { venue_id?: unknown; asset_id?: unknown }) =>
  query.asset_id === undefined || query.venue_id !== undefined;

export const afterFrom = { error: "must not be before from", path: ["to"] };
export const inOrder = ({ from, to }: { from?: number | undefined; to?: number | undefined }) =>
  from === undefined || to === undefined || from <= to;
