/** The venues of the local stack, the three of docs/contract.md. */
export const LOCAL_VENUES = ["venue_one", "venue_two", "venue_three"] as const;
/** It has no chain: its tokens are issued in pairs. */
export const CHAINLESS_VENUE = "venue_four";
export type LocalVenue = (typeof LOCAL_VENUES)[number];

/** A record with one value for each venue. The caller passes an entry for every venue. */
export function venueRecord<T>(
  entries: readonly (readonly [LocalVenue, T])[],
): Record<LocalVenue, T> {
  // The type of `Object.fromEntries` loses the names.
  return Object.fromEntries(entries) as Record<LocalVenue, T>;
}
