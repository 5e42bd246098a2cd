import { VENUES, type Venue } from "../platform/venues.ts";
import { invalidRequest } from "../platform/problem.ts";
import { pauseVenue, resumeVenue } from "../rfq/close-books.ts";
import { recordCommand } from "./audit.ts";
import { argument, type Desk } from "./context.ts";

/** Market close: refuses new business at once, then cancels what is open. */
export async function pause(desk: Desk): Promise<unknown> {
  const venue = venueOf(desk);
  await recordCommand(desk, "venue_paused", venue);
  return { venue_id: venue, paused: true, cancelled_requests: await pauseVenue(desk.env, venue) };
}

export async function resume(desk: Desk): Promise<unknown> {
  const venue = venueOf(desk);
  await recordCommand(desk, "venue_resumed", venue);
  return { venue_id: venue, paused: false, changed: await resumeVenue(desk.env.DB, venue) };
}

function venueOf(desk: Desk): Venue {
  const named = argument(desk, "venue");
  const venue = VENUES.find((name) => name === named);
  if (venue === undefined)
    throw invalidRequest([{ path: "venue", message: `must be one of ${VENUES.join(", ")}` }]);
  return venue;
}
