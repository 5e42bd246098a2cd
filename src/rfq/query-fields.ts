/** Parameters that several lists of RFQ share, and rules over them for `.refine(rule, error)`. */
import type { Venue } from "../platform/venues.ts";
import { assetId, venueField } from "../assets/asset-fields.ts";
import { described, timestamp } from "../http/fields.ts";
import { type BookFilter, MAX_EXAMINED } from "./examined-page.ts";

export const bookFilter = { venue_id: venueField.optional(), asset_id: assetId.optional() };

export function bookOf(query: {
  readonly venue_id?: Venue | undefined;
  readonly asset_id?: string | undefined;
}): BookFilter {
  return { venue: query.venue_id, assetId: query.asset_id };
}

export const period = {
  from: described(timestamp, "Only those at or after this instant").optional(),
  to: described(timestamp, "Only those at or before this instant").optional(),
};

export const venueOfAsset = { error: "is required with asset_id", path: ["venue_id"] };
export const hasVenue = (query: { venue_id?: unknown; asset_id?: unknown }) =>
  query.asset_id === undefined || query.venue_id !== undefined;

export const afterFrom = { error: "must not be before from", path: ["to"] };
export const inOrder = ({ from, to }: { from?: number | undefined; to?: number | undefined }) =>
  from === undefined || to === undefined || from <= to;

/** For the description of a list whose filters no index serves. */
export const EXAMINED =
  `With a filter, a page examines at most ${MAX_EXAMINED} records. It can then have fewer items ` +
  "than `limit`, and a `next_cursor` from which to continue.";
