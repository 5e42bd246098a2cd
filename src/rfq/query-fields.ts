/** What several routes of RFQ share. */
import * as z from "zod";
import type { Venue } from "../platform/venues.ts";
import { assetId, venueField } from "../assets/asset-fields.ts";
import { described, timestamp } from "../http/fields.ts";
import { type BookFilter, MAX_EXAMINED, type Period } from "./examined-page.ts";

export const READ = { tag: "RFQ", method: "get", credential: "any", scope: "read" } as const;
/** What names no person needs no credential. */
export const PUBLIC = { tag: "RFQ", method: "get", credential: "public" } as const;
export const TRADE = { tag: "RFQ", credential: "any", scope: "trade" } as const;

const bookFilter = { venue_id: venueField.optional(), asset_id: assetId.optional() };

/** The fields of a list of one book, of one venue or of all, between other fields. */
export function bookQuery<Before extends z.ZodRawShape, After extends z.ZodRawShape>(
  before: Before,
  after: After,
) {
  return z.strictObject({ ...before, ...bookFilter, ...after }).refine(hasVenue, {
    error: "is required with asset_id",
    path: ["venue_id"],
  });
}

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

const hasVenue = (query: { venue_id?: unknown; asset_id?: unknown }) =>
  query.asset_id === undefined || query.venue_id !== undefined;

/** For a schema with `period`: `.refine(...inOrder)`. */
export const inOrder: [(period: Period) => boolean, { error: string; path: string[] }] = [
  ({ from, to }) => from === undefined || to === undefined || from <= to,
  { error: "must not be before from", path: ["to"] },
];

/** For the description of a list whose filters no index serves. */
export const EXAMINED =
  `With a filter, a page examines at most ${MAX_EXAMINED} records. It can then have fewer items ` +
  "than `limit`, and a `next_cursor` from which to continue.";
