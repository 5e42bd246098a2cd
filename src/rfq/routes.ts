import * as z from "zod";
import { ownRecords } from "../archive/ask-history.ts";
import { SIDES } from "../assets/asset-fields.ts";
import { pageFields, pageSchema, timeIdPage } from "../http/cursor.ts";
import { described, oneOf, uuidField } from "../http/fields.ts";
import { invalidRequest, type ProblemCode } from "../platform/problem.ts";
import { route } from "../http/define-route.ts";
import { limitActor } from "../http/rate-limit.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { acceptPriceView, unwrap } from "./result.ts";
import { cancelQuotes } from "./cancel-quotes.ts";
import { registerProtectionRoutes } from "./protection-routes.ts";
import { listMatches } from "./list-matches.ts";
import { listOwnQuotes, listQuotesOnRequest, type QuotePosition } from "./list-quotes.ts";
import { listOpenRequests, listOwnRequests } from "./list-requests.ts";
import { bookOf, bookQuery, EXAMINED, inOrder, period, READ, TRADE } from "./query-fields.ts";
import { TickerList } from "./candles/list-tickers.ts";
import { registerCandleRoutes } from "./candles/routes.ts";
import { registerMarketRoutes } from "./markets/routes.ts";
import { registerPairRoutes } from "./pairs/routes.ts";
import { registerRecordRoutes } from "./record-routes.ts";
import { matchView, quoteView, requestView } from "./rfq-records.ts";
import {
  AcceptBody,
  AcceptPriceBody,
  AcceptPriceSet,
  CancelledQuote,
  CancelledQuotes,
  CancelledRequest,
  labelField,
  Match,
  Quote,
  QuoteBody,
  QuoteResults,
  quotesBody,
  quoteStatus,
  RequestBody,
  RequestItem,
  requestListing,
  ROLES,
} from "./schemas.ts";
import { MAX_QUOTES_PER_CALL, placeQuotes, quotesView } from "./place-quotes.ts";
import { PLACE_QUOTE_PROBLEMS } from "./quote-preconditions.ts";
import { acceptOf, openRequestOf, placeQuoteOf, placeQuotesOf } from "./read-commands.ts";
import { submitCommand } from "./submit.ts";
import { type Api, reply } from "../http/route-definition.ts";

const REPLAYED = "idempotency-replayed";
const REPLAYED_HEADER = { [REPLAYED]: "`true` when an earlier call had done it" };
const replayHeaders = ({ replayed }: { replayed: boolean }) =>
  replayed ? { [REPLAYED]: "true" } : {};
/** Every command can fail because its book cannot commit. */
const BOOK_PROBLEMS: readonly ProblemCode[] = ["unavailable"];

const quotePosition = z
  .tuple([z.enum(SIDES), z.int(), z.int(), z.uuid()])
  .transform((parts): QuotePosition => parts);

const chosenQuotes = {
  request_id: described(uuidField, "Only quotes on this request").optional(),
  label: described(labelField, "Only quotes with this label").optional(),
};

export function registerRfqRoutes(api: Api): void {
  registerRequestRoutes(api);
  registerOwnRequestRoutes(api);
  registerPlacingRoutes(api);
  registerQuoteRoutes(api);
  registerOwnQuoteRoutes(api);
  registerMatchRoutes(api);
  registerProtectionRoutes(api);
  registerRecordRoutes(api);
  const tickers = new TickerList();
  registerMarketRoutes(api, tickers);
  registerPairRoutes(api);
  registerCandleRoutes(api, tickers);
}

function registerRequestRoutes(api: Api): void {
  route(api, {
    ...TRADE,
    method: "post",
    path: "/rfq/request",
    operationId: "createRequest",
    summary: "Ask for a price",
    description:
      "Give `amount` or `usdc_amount`. With `accept_price` the first quote that is as good is " +
      "accepted by the commit that places it (POST /rfq/accept-price). Makers do not see who asks unless " +
      "`disclose_identity` is true. Nothing is reserved until you accept a quote.",
    idempotent: true,
    body: RequestBody,
    response: RequestItem,
    status: 201,
    problems: [
      ...BOOK_PROBLEMS,
      "market_unknown",
      "deadline_passed",
      "market_closed",
      "venue_paused",
      "request_amount_limit",
      "open_request_limit",
      "daily_limit",
      "key_limit",
    ],
    handler: async ({ env, settings, body, actor, receivedAt, idempotencyKey }) => {
      const command = openRequestOf(body, { actor, receivedAt }, idempotencyKey, settings);
      const result = unwrap(await submitCommand(env, command), "request");
      return reply(requestView(result.row), replayHeaders(result));
    },
  });
  route(api, {
    ...READ,
    path: "/rfq/request",
    operationId: "listOpenRequests",
    summary: "List open requests of one book, of one venue, or all",
    description: "Everyone's open requests. `user_id` is null unless the requester disclosed it.",
    query: bookQuery({}, timeIdPage),
    response: pageSchema(RequestItem),
    handler: ({ db, actor, query }) => listOpenRequests(db, actor.userId, bookOf(query), query),
  });
}

function registerOwnRequestRoutes(api: Api): void {
  route(api, {
    ...TRADE,
    method: "delete",
    path: "/rfq/request",
    operationId: "cancelRequest",
    repeatable: true,
    summary: "Cancel one of your requests",
    description: "The open quotes on it end with it. It is too late once a quote was accepted.",
    fields: z.strictObject({ request_id: described(uuidField, "Id of the request to cancel") }),
    response: CancelledRequest,
    responseHeaders: REPLAYED_HEADER,
    problems: [
      ...BOOK_PROBLEMS,
      "request_unknown",
      "not_request_owner",
      "request_not_open",
      "request_expired",
    ],
    handler: async ({ env, actor, receivedAt, fields: { request_id: requestId } }) => {
      const sent = { actor, receivedAt, operationId: uuidv7() };
      const command = { op: "cancel_request", ...sent, requestId } as const;
      const result = unwrap(await submitCommand(env, command), "cancelled");
      return reply({ request_id: requestId, status: "cancelled" as const }, replayHeaders(result));
    },
  });
  route(api, {
    ...READ,
    path: "/rfq/get-requests",
    operationId: "listMyRequests",
    summary: "List your requests, by default the open ones, newest first",
    description: EXAMINED,
    query: bookQuery(
      {
        status: requestListing,
        label: described(labelField, "Only requests with this label").optional(),
      },
      timeIdPage,
    ),
    response: pageSchema(RequestItem),
    handler: ({ db, actor, query }) => {
      const filter = { status: query.status, label: query.label, ...bookOf(query) };
      return listOwnRequests(db, actor.userId, filter, query);
    },
  });
}

function registerPlacingRoutes(api: Api): void {
  route(api, {
    ...TRADE,
    method: "post",
    path: "/rfq/quote",
    operationId: "createQuote",
    summary: "Offer a firm price on an open request",
    description:
      "Reserves your side of the trade until the quote ends: the asset for a Bid, USDC and your " +
      "fee for an Ask. A quote never outlives its request.",
    idempotent: true,
    body: QuoteBody,
    response: Quote,
    status: 201,
    problems: [...BOOK_PROBLEMS, ...PLACE_QUOTE_PROBLEMS],
    handler: async ({ env, body, actor, receivedAt, idempotencyKey }) => {
      const command = placeQuoteOf(body, { actor, receivedAt }, idempotencyKey);
      const result = unwrap(await submitCommand(env, command), "quote");
      return reply(quoteView(result.row), replayHeaders(result));
    },
  });
  route(api, {
    ...TRADE,
    method: "post",
    path: "/rfq/quotes",
    operationId: "createQuotes",
    repeatable: true,
    summary: "Place several quotes",
    description:
      "Each quote succeeds or fails alone, so read each result. Quotes on one book are placed in " +
      "the order sent, in one commit. Each counts as one request of the rate limits. A malformed " +
      "quote fails the call. Give each quote its own `idempotency_key`.",
    body: quotesBody(MAX_QUOTES_PER_CALL),
    response: QuoteResults,
    handler: async ({ env, settings, request, requestId, body, actor, receivedAt }) => {
      if (request.headers.has("idempotency-key"))
        throw invalidRequest([
          {
            path: "header.idempotency-key",
            message: "is not accepted here. Give each quote an idempotency_key",
          },
        ]);
      const commands = placeQuotesOf(body, { actor, receivedAt }, "body");
      await limitActor(env, settings, "trade", actor, commands.length - 1);
      return quotesView(await placeQuotes(env, actor, commands), () => requestId);
    },
  });
}

function registerQuoteRoutes(api: Api): void {
  route(api, {
    ...READ,
    path: "/rfq/quote",
    operationId: "listQuotesOnRequest",
    summary: "List the quotes on one of your requests, best first",
    description:
      "On a two-way request Bid precedes Ask. A quote is listed until `hot_window_secs` after it ended.",
    query: z.strictObject({
      request_id: described(uuidField, "Id of your request"),
      side: described(oneOf(SIDES), "Only quotes of this side").optional(),
      status: quoteStatus.optional(),
      ...pageFields(quotePosition),
    }),
    response: pageSchema(Quote),
    problems: ["request_unknown", "not_request_owner"],
    handler: ({ db, actor, query }) => {
      const filter = { requestId: query.request_id, side: query.side, status: query.status };
      return listQuotesOnRequest(db, actor.userId, filter, query);
    },
  });
  route(api, {
    ...TRADE,
    method: "delete",
    path: "/rfq/quote",
    operationId: "cancelQuote",
    repeatable: true,
    summary: "Cancel one of your quotes",
    description: "What it reserved is available again. It is too late once the quote was accepted.",
    fields: z.strictObject({ quote_id: described(uuidField, "Id of the quote to cancel") }),
    response: CancelledQuote,
    responseHeaders: REPLAYED_HEADER,
    problems: [...BOOK_PROBLEMS, "quote_unknown", "not_quote_owner", "quote_not_open"],
    handler: async ({ env, actor, receivedAt, fields: { quote_id: quoteId } }) => {
      const sent = { actor, receivedAt, operationId: uuidv7() };
      const command = { op: "cancel_quote", ...sent, quoteId } as const;
      const result = unwrap(await submitCommand(env, command), "cancelled");
      return reply({ quote_id: quoteId, status: "cancelled" as const }, replayHeaders(result));
    },
  });
}

function registerOwnQuoteRoutes(api: Api): void {
  route(api, {
    ...TRADE,
    method: "delete",
    path: "/rfq/quotes",
    operationId: "cancelQuotes",
    summary: "Cancel all your quotes, optionally of one venue, asset, request or label",
    description:
      "A quote in flight can be placed after it, so stop quoting first. Do not repeat it blindly: a " +
      "second call cancels newer quotes, too.",
    fields: bookQuery({}, chosenQuotes),
    response: CancelledQuotes,
    problems: BOOK_PROBLEMS,
    handler: async ({ env, actor, fields }) => {
      const { request_id: requestId, label } = fields;
      return { cancelled: await cancelQuotes(env, actor, { requestId, label, ...bookOf(fields) }) };
    },
  });
  route(api, {
    ...READ,
    path: "/rfq/get-quotes",
    operationId: "listMyQuotes",
    summary: "List your own quotes, newest first",
    description: EXAMINED,
    query: bookQuery({ status: quoteStatus.optional(), ...chosenQuotes }, timeIdPage),
    response: pageSchema(Quote),
    handler: ({ db, actor, query }) => {
      const { status, request_id: requestId, label } = query;
      const filter = { status, requestId, label, ...bookOf(query) };
      return listOwnQuotes(db, actor.userId, filter, query);
    },
  });
}

function registerMatchRoutes(api: Api): void {
  route(api, {
    ...TRADE,
    method: "post",
    path: "/rfq/accept",
    operationId: "acceptQuote",
    repeatable: true,
    summary: "Accept a quote on your request, or the best one at a price",
    description:
      "Give `quote_id`, or `request_id` and `price`: then the best quote that is open at the " +
      "commit is accepted, never at a worse price. Both sides settle at once, and every other " +
      "quote on the request is rejected. Repeating an accept returns the same match.",
    body: AcceptBody,
    response: Match,
    responseHeaders: REPLAYED_HEADER,
    problems: [
      ...BOOK_PROBLEMS,
      "quote_unknown",
      "request_unknown",
      "not_request_owner",
      "deadline_passed",
      "quote_not_open",
      "request_not_open",
      "quote_expired",
      "request_expired",
      "side_mismatch",
      "market_closed",
      "venue_paused",
      "no_quote_within",
      "key_limit",
      "account_limit",
      "insufficient_funds",
      "balance_limit",
    ],
    handler: async ({ env, actor, receivedAt, body }) => {
      const command = acceptOf(body, { actor, receivedAt });
      const result = unwrap(await submitCommand(env, command), "match");
      return reply(matchView(result.row), replayHeaders(result));
    },
  });
  route(api, {
    ...TRADE,
    method: "post",
    path: "/rfq/accept-price",
    operationId: "setAcceptPrice",
    repeatable: true,
    summary: "Set, change or remove the price at which your request accepts a quote",
    description:
      "If an open quote is as good, it is accepted at once. Later the commit that places such a " +
      "quote accepts it: the best one, then the oldest, as if you called then, with the " +
      "credential of this call. Makers do not see the price. If your funds, limits or rights do " +
      "not allow it, the quote stays open, and `accept.refused` says why, once until you call again.",
    body: AcceptPriceBody,
    response: AcceptPriceSet,
    problems: [
      ...BOOK_PROBLEMS,
      "request_unknown",
      "not_request_owner",
      "request_not_open",
      "request_expired",
      "side_mismatch",
    ],
    handler: async ({ env, actor, receivedAt, body }) => {
      const { request_id: requestId, accept_price: price, accept_side: side = null } = body;
      const sent = { actor, receivedAt, operationId: uuidv7(), requestId };
      const command = { op: "set_accept_price", ...sent, price, side } as const;
      return acceptPriceView(unwrap(await submitCommand(env, command), "accept_price").row);
    },
  });
  route(api, {
    ...READ,
    path: "/rfq/get-matches",
    operationId: "listMatches",
    summary: "List your matches as requester or maker, newest first",
    description: EXAMINED,
    query: bookQuery(
      {
        role: described(oneOf(ROLES), "Only matches in which you had this role").optional(),
        label: described(
          labelField,
          "Only matches whose request or quote you labelled so",
        ).optional(),
      },
      { ...period, ...timeIdPage },
    ).refine(...inOrder),
    response: pageSchema(Match),
    handler: ({ env, actor, query }) => {
      const { role, label, from, to } = query;
      const filter = { role, label, from, to, ...bookOf(query) };
      return listMatches(ownRecords(env, actor.userId), actor.userId, filter, query);
    },
  });
}
