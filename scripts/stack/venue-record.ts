import type { LocalVenue } from "./local-venues.ts";

/** A record with one value for each venue. The caller passes an entry for every venue. */
export function venueRecord<T>(
  entries: readonly (readonly [LocalVenue, T])[],
): Record<LocalVenue, T> {
  // The type of `Object.fromEntries` loses the names.
  return Object.fromEntries(entries) as Record<LocalVenue, T>;
}
