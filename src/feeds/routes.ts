/** The routes of /account. docs/contract.md section 6 has the rules. */
import * as z from "zod";
import { limitField } from "../http/cursor.ts";
import { route } from "../http/define-route.ts";
import { described, integer, listOf } from "../http/fields.ts";
import type { Api } from "../http/route-definition.ts";
import { ACCOUNT_EVENT_TYPES } from "./event-views.ts";
import { listEvents } from "./list-events.ts";

const seq = z.int().min(0);

const AccountEvent = z
  .object({
    type: z.string().meta({
      description: "Type of the event. Types may be added.",
      examples: ["request.closed"],
    }),
    stream: described(z.string(), "Name of the account stream"),
    seq: described(seq, "Number of the event in the stream"),
    at: described(z.iso.datetime(), "Instant of the commit that it reports"),
    data: described(
      z.record(z.string(), z.unknown()),
      "As in the message of this type on the account stream (asyncapi.yaml)",
    ),
  })
  .meta({ id: "AccountEvent" });

export function registerFeedRoutes(api: Api): void {
  route(api, {
    method: "get",
    path: "/account/events",
    operationId: "listAccountEvents",
    tag: "Streams",
    summary: "List your own events, oldest first",
    description:
      "The events of the account stream, with the same numbers and the same `data`. To poll, pass " +
      "`next_since` as `since`. A page with `types` may be short, because it examines a limited " +
      "number of events. Events are kept for two hours.",
    credential: "any",
    scope: "read",
    query: z.strictObject({
      since: described(
        integer(0, Number.MAX_SAFE_INTEGER),
        "Only events after this number. Default: from the oldest that is kept",
      ).optional(),
      types: described(
        listOf(ACCOUNT_EVENT_TYPES),
        "Only events of these types, separated by commas",
      ).optional(),
      limit: limitField,
    }),
    response: z.object({
      items: described(z.array(AccountEvent), "The events of this page"),
      next_since: described(seq, "Pass it as `since` to get the next page"),
      last_seq: described(
        seq,
        "The stream's last number. If it equals `next_since`, there is nothing more now.",
      ),
    }),
    problems: ["events_gone"],
    handler: ({ db, actor, query }) => listEvents(db, actor.userId, query),
  });
}
