/**
 * The venues whose outcome tokens the service can hold. A deployment serves the venues in its
 * setting VENUES. The list is here because settings, schemas and asset keys use it.
 */
export const VENUES = ["venue_one", "venue_two", "venue_three"] as const;
export type Venue = (typeof VENUES)[number];
