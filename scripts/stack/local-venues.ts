/** The venues of the local stack, the three of docs/interface.md. */
export const LOCAL_VENUES = ["venue_one", "venue_two", "venue_three"] as const;
export type LocalVenue = (typeof LOCAL_VENUES)[number];
