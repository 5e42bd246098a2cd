import type { Venue } from "../platform/venues.ts";
import { invalidRequest } from "../platform/problem.ts";
import { pauseVenue, resumeVenue } from "../rfq/close-books.ts";
import { recordCommand } from "./audit-commands.ts";
import { argument, type OperatorContext } from "./context.ts";

/** Pauses a venue: rejects new requests and quotes, then cancels the open ones. */
export async function pause(context: OperatorContext): Promise<unknown> {
  const venue = venueOf(context);
  await recordCommand(context, "venue_paused", venue);
  return {
    venue_id: venue,
    paused: true,
    cancelled_requests: await pauseVenue(context.env, venue),
  };
}

export async function resume(context: OperatorContext): Promise<unknown> {
  const venue = venueOf(context);
  await recordCommand(context, "venue_resumed", venue);
  return { venue_id: venue, paused: false, changed: await resumeVenue(context.env.DB, venue) };
}

function venueOf(context: OperatorContext): Venue {
  const word = argument(context, "venue");
  const served = context.settings.VENUES.map(({ venue_id }) => venue_id);
  if (!served.includes(word))
    throw invalidRequest([{ path: "venue", message: `must be one of ${served.join(", ")}` }]);
  return word;
}
