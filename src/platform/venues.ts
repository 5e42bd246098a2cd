/**
 * The venues whose outcome tokens the service can hold. A deployment serves those that its setting
 * VENUES lists. The list is here because settings, schemas and asset keys all need it.
 */
export const VENUES = ["venue_one", "venue_two", "venue_three"] as const;
export type Venue = (typeof VENUES)[number];
