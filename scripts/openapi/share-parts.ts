/**
 * Moves what several operations have in common to `components`: pages of records and error
 * responses. Adds the links from one operation to the next.
 */
import type { OpenApi, Operation, Response } from "./describe.ts";
import type { JsonSchema } from "./examples.ts";
import { capital } from "./name-objects.ts";

/** The page of `RequestItem` is `RequestPage`, that of `Match` is `MatchPage`. */
export function namePages(operations: readonly Operation[], schemas: Record<string, JsonSchema>) {
  for (const { responses } of operations) {
    for (const media of Object.values(responses).flatMap(({ content }) =>
      Object.values(content ?? {}),
    )) {
      const { properties } = media.schema ?? {};
      const item = properties?.["items"]?.items?.$ref?.split("/").at(-1);
      if (item === undefined || properties?.["next_cursor"] === undefined) continue;
      const name = `${item.replace(/Item$/, "")}Page`;
      schemas[name] = media.schema ?? {};
      media.schema = { $ref: `#/components/schemas/${name}` };
    }
  }
}

const STATUS_NAMES: Readonly<Record<string, string>> = {
  400: "BadRequest",
  401: "Unauthorized",
  403: "Forbidden",
  404: "NotFound",
  409: "Conflict",
  413: "BodyTooLarge",
  415: "ContentTypeUnsupported",
  422: "IdempotencyKeyReused",
  426: "WebsocketRequired",
  429: "RateLimited",
  500: "Internal",
  503: "Unavailable",
};

/**
 * Shares the error responses that at least two operations have. They are named by their status, and
 * by the first operation that has them where a status has several.
 */
export function shareResponses(operations: readonly Operation[]): Record<string, Response> {
  const uses = new Map<string, { operation: Operation; status: string }[]>();
  for (const operation of operations) {
    for (const [status, response] of Object.entries(operation.responses)) {
      if (STATUS_NAMES[status] === undefined) continue;
      const text = JSON.stringify(response);
      uses.set(text, [...(uses.get(text) ?? []), { operation, status }]);
    }
  }
  const shared: Record<string, Response> = {};
  for (const [text, users] of uses) {
    const first = users[0];
    if (first === undefined || users.length < 2) continue;
    const word = STATUS_NAMES[first.status] ?? "";
    const name = shared[word] === undefined ? word : word + capital(first.operation.operationId);
    shared[name] = JSON.parse(text) as Response;
    for (const { operation, status } of users)
      operation.responses[status] = { $ref: `#/components/responses/${name}` };
  }
  return shared;
}

type Link = {
  readonly to: string;
  readonly description: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly requestBody?: Readonly<Record<string, string>>;
};

const requestId = { request_id: "$response.body#/request_id" };
const quoteId = { quote_id: "$response.body#/quote_id" };
const matchId = { match_id: "$response.body#/match_id" };

/** The life of a trade: request, quote, accept, match. */
const LINKS: Readonly<Record<string, readonly Link[]>> = {
  createRequest: [
    {
      to: "createQuote",
      description: "Another user quotes the request. `price` is theirs to choose.",
      requestBody: requestId,
    },
    { to: "listQuotesOnRequest", description: "Its quotes, best first", parameters: requestId },
    { to: "getRequest", description: "The request", parameters: requestId },
    { to: "cancelRequest", description: "Cancel the request", parameters: requestId },
  ],
  createQuote: [
    { to: "acceptQuote", description: "The requester accepts the quote", requestBody: quoteId },
    { to: "getQuote", description: "The quote", parameters: quoteId },
    { to: "cancelQuote", description: "Cancel the quote", parameters: quoteId },
  ],
  acceptQuote: [{ to: "getMatch", description: "The match", parameters: matchId }],
};

export function addLinks(paths: OpenApi["paths"]): void {
  for (const operation of Object.values(paths).flatMap((methods) => Object.values(methods))) {
    const links = LINKS[operation.operationId];
    const success = Object.entries(operation.responses).find(([status]) => status.startsWith("2"));
    if (links === undefined || success === undefined) continue;
    success[1].links = Object.fromEntries(
      links.map(({ to, ...link }) => [to, { operationId: to, ...link }]),
    );
  }
}
