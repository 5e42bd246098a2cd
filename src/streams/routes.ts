/** Websocket upgrades. The Worker consumes the ticket; the stream's object accepts the socket. */
import * as z from "zod";
import { assetKey } from "../assets/asset.ts";
import { assetId, assetList, venueField } from "../assets/asset-fields.ts";
import { scopeMissing } from "../auth/scope.ts";
import { consumeTicket, giveBackTicket } from "../auth/ws-ticket.ts";
import { boolean, boundedText, described, integer } from "../http/fields.ts";
import type { Config } from "../platform/config.ts";
import { Problem, type ProblemCode } from "../platform/problem.ts";
import { streamRoute } from "../http/define-route.ts";
import { countRefusal } from "../http/rate-limit.ts";
import type { Sql } from "../platform/sql.ts";
import { accountStreamOf } from "../platform/announce.ts";
import { accountStream, bookStream, venueStream } from "./event-log.ts";
import { streamObject } from "./notify.ts";
import { ACTOR_HEADER } from "./socket.ts";
import type { Api } from "../http/route-definition.ts";

const ticket = described(boundedText(1, 128), "Ticket from POST /auth/ws-ticket");
const since = described(
  integer(0, Number.MAX_SAFE_INTEGER),
  "The last `seq` that you have seen. Later events are replayed.",
);
const streamedAssets = assetList(
  "Only events of these assets of the venue, although `seq` stays the venue's",
);
const cancelOnDisconnect = described(
  boolean,
  "Whether the open quotes of your key are cancelled when this socket ends, or sends nothing for " +
    "30 s, not even `ping`. Needs the scope trade",
);
const TICKET_PROBLEMS: readonly ProblemCode[] = [
  "ticket_invalid",
  "account_frozen",
  "ip_not_allowed",
  "scope_missing",
  "socket_limit",
];

export function registerStreamRoutes(api: Api): void {
  streamRoute(api, {
    path: "/rfq/stream",
    operationId: "openBookStream",
    summary: "Stream the public events of one book, or of all or chosen books of a venue",
    description:
      "Takes a ticket. Begins with a snapshot of the open requests, or after `since`. " +
      "/asyncapi.json describes the messages.",
    query: z
      .strictObject({
        ticket,
        venue_id: venueField,
        asset_id: assetId.optional(),
        assets: streamedAssets.optional(),
        since: since.optional(),
        cancel_on_disconnect: cancelOnDisconnect.optional(),
      })
      .refine(({ asset_id, assets }) => asset_id === undefined || assets === undefined, {
        path: ["assets"],
        message: "must not be combined with asset_id",
      }),
    problems: TICKET_PROBLEMS,
    handler: (call) => {
      const { venue_id: venue, asset_id: asset } = call.query;
      const stream =
        asset === undefined ? venueStream(venue) : bookStream(assetKey({ venue, assetId: asset }));
      return upgrade(call, stream, () => stream);
    },
  });
  streamRoute(api, {
    path: "/account/stream",
    operationId: "openAccountStream",
    summary: "Stream your own events, whichever credential caused them",
    description:
      "Takes a ticket. Begins with a snapshot if `snapshot` is true, or after `since`. " +
      "/asyncapi.json describes the messages.",
    query: z.strictObject({
      ticket,
      since: since.optional(),
      snapshot: described(
        boolean,
        "Whether a snapshot of your balances, open requests and quotes and unfinished " +
          "withdrawals comes first",
      ).optional(),
      cancel_on_disconnect: cancelOnDisconnect.optional(),
    }),
    problems: TICKET_PROBLEMS,
    handler: (call) => upgrade(call, accountStreamOf("user_id"), accountStream),
  });
}

type Upgrade = {
  readonly env: Env;
  readonly db: D1Database;
  readonly settings: Config;
  readonly clientIp: string | undefined;
  readonly query: {
    readonly ticket: string;
    readonly since?: number | undefined;
    readonly assets?: readonly string[] | undefined;
    readonly snapshot?: boolean | undefined;
    readonly cancel_on_disconnect?: boolean | undefined;
  };
};

async function upgrade(
  { env, db, settings, clientIp, query }: Upgrade,
  stream: string | Sql,
  streamOf: (userId: string) => string,
): Promise<Response> {
  const { expiresAtMs, ...actor } = await consumeTicket(db, settings, {
    ticket: query.ticket,
    clientIp,
    stream,
  });
  const armed = query.cancel_on_disconnect === true;
  if (armed && !actor.scopes.includes("trade")) throw scopeMissing("trade", actor.scopes);
  const target = new URL("https://stream.internal/");
  if (query.since !== undefined) target.searchParams.set("since", String(query.since));
  if (query.assets !== undefined) target.searchParams.set("assets", query.assets.join(","));
  if (query.snapshot === true) target.searchParams.set("snapshot", "true");
  const headers = {
    upgrade: "websocket",
    [ACTOR_HEADER]: JSON.stringify({ actor, endsAt: expiresAtMs, armed }),
  };
  const response = await streamObject(env, streamOf(actor.userId)).fetch(
    new Request(target, { headers }),
  );
  if (response.status === 429) {
    // An upgrade costs D1 the same when it is refused, so a ticket is not good for any number.
    const limit = await countRefusal(env, settings, `${actor.userId}:upgrade`);
    if (limit !== undefined) throw new Problem(limit);
    await giveBackTicket(db, query.ticket);
    throw new Problem({
      code: "socket_limit",
      detail: "You have reached the limit of open sockets over all streams.",
      retryAfterSecs: 5,
    });
  }
  return response;
}
