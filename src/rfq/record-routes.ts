/** Routes that read one request, quote or match by its id, and the tape of all trades. */
import * as z from "zod";
import { orReceipt, RECEIPT_TEXT, RECEIPT_TYPE } from "../audit/receipt.ts";
import { ownRecords } from "../archive/ask-history.ts";
import { pageSchema, timeIdPage } from "../http/cursor.ts";
import { described, oneOf, textField, uuidField } from "../http/fields.ts";
import { route } from "../http/define-route.ts";
import type { Api } from "../http/route-definition.ts";
import { windowsOf } from "../platform/windows.ts";
import { EXPORT_OPERATION, exportRecords, NDJSON, readDay, sealCursor } from "./export-records.ts";
import { getMatch, getQuote, getRequest } from "./get-records.ts";
import { listPositions, positionPage } from "./list-positions.ts";
import { listTrades } from "./list-trades.ts";
import { bookOf, bookQuery, inOrder, period, PUBLIC, READ } from "./query-fields.ts";
import { Match, Position, Quote, RequestItem, Trade } from "./schemas.ts";

export function registerRecordRoutes(api: Api): void {
  registerRecords(api);
  registerExport(api);
  registerTrades(api);
}

function registerRecords(api: Api): void {
  route(api, {
    ...READ,
    path: "/rfq/get-request",
    operationId: "getRequest",
    summary: "Get one of your requests, or an open one of another user",
    description: "Another user's request is unknown once it has ended.",
    query: z.strictObject({ request_id: described(uuidField, "Id of the request") }),
    response: RequestItem,
    problems: ["request_unknown"],
    handler: ({ db, actor, query }) => getRequest(db, actor.userId, query.request_id),
  });
  route(api, {
    ...READ,
    path: "/rfq/get-quote",
    operationId: "getQuote",
    summary: "Get one of your quotes, or a quote on your request",
    description: "The requester sees it without its label and reserve.",
    query: z.strictObject({ quote_id: described(uuidField, "Id of the quote") }),
    response: Quote,
    problems: ["quote_unknown"],
    handler: ({ db, actor, query }) => getQuote(db, actor.userId, query.quote_id),
  });
  route(api, {
    ...READ,
    path: "/rfq/get-match",
    operationId: "getMatch",
    summary: "Get one of your matches by its id, or by that of its quote or request",
    description:
      "Give exactly one id. That of a quote or a request finds the match after a lost " +
      `response of an accept. ${RECEIPT_TEXT}`,
    query: z
      .strictObject({
        match_id: described(uuidField, "Id of the match").optional(),
        quote_id: described(uuidField, "Id of the accepted quote").optional(),
        request_id: described(uuidField, "Id of the matched request").optional(),
      })
      .refine((ids) => Object.values(ids).filter((id) => id !== undefined).length === 1, {
        path: ["match_id"],
        message: "exactly one of match_id, quote_id and request_id must be given",
      }),
    response: Match,
    otherMediaTypes: [RECEIPT_TYPE],
    problems: ["match_unknown"],
    handler: async (call) => {
      const { env, actor, query } = call;
      const match = await getMatch(ownRecords(env, actor.userId), actor.userId, query);
      return orReceipt(call, "match", match);
    },
  });
}

function registerExport(api: Api): void {
  route(api, {
    ...READ,
    path: "/rfq/export-records",
    operationId: EXPORT_OPERATION,
    summary: "Export your requests or quotes of a day that have ended",
    description:
      "The response is NDJSON. Each line is one record, as GET /rfq/get-requests or " +
      '/rfq/get-quotes showed it at its end, in no order. The last line is `{"next_cursor": …}`: call again with it as `last_cursor` ' +
      "until it is null. Without that line the response is incomplete. Records come at the latest " +
      "when lists no longer have them, and stay for ever.",
    query: z.strictObject({
      kind: described(oneOf(["requests", "quotes"]), "Which records"),
      day: textField(readDay, "must be a UTC day as YYYY-MM-DD", {
        type: "string",
        format: "date",
        description: "UTC day on which they were opened",
      }),
      last_cursor: sealCursor,
    }),
    response: z.string(),
    mediaType: NDJSON,
    handler: ({ env, actor, query: { kind, day, last_cursor } }) => {
      const records = { ...ownRecords(env, actor.userId), bucket: env.ARCHIVE };
      const asked = { kind, day, after: last_cursor?.position ?? 0 };
      return exportRecords(records, actor.userId, asked);
    },
  });
}

function registerTrades(api: Api): void {
  route(api, {
    ...PUBLIC,
    path: "/rfq/get-trades",
    operationId: "listTrades",
    summary: "List everyone's trades of the last 24 hours, newest first",
    description: "A trade names neither its parties nor their fees.",
    query: bookQuery({}, { ...period, ...timeIdPage }).refine(...inOrder),
    response: pageSchema(Trade),
    handler: ({ db, settings, query }) => {
      const filter = { from: query.from, to: query.to, ...bookOf(query) };
      return listTrades(db, filter, query, windowsOf(settings).tape);
    },
  });
  route(api, {
    ...READ,
    path: "/rfq/get-positions",
    operationId: "listPositions",
    summary:
      "List the outcome tokens that you hold or have traded, with what they cost and brought",
    description: "Sorted by venue and asset. Deposits and withdrawals change no sum.",
    query: bookQuery({}, positionPage),
    response: pageSchema(Position),
    handler: ({ db, settings, actor, query }) =>
      listPositions({ db, settings }, actor.userId, bookOf(query), query),
  });
}
