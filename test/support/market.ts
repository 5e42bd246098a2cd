/** Markets of a test's own: commands, the book that decides them, and parties with funds. */
import { env } from "cloudflare:workers";
import type { AssetKey } from "../../src/assets/asset.ts";
import type { RequestSide, Side } from "../../src/assets/asset-fields.ts";
import type { Actor } from "../../src/platform/actor.ts";
import { commit, newGroup, NOW } from "../../src/platform/commit.ts";
import { config, type Config } from "../../src/platform/config.ts";
import { ask } from "../../src/platform/preconditions.ts";
import { all, sql, uuid } from "../../src/platform/sql.ts";
import { now, setClock } from "../../src/platform/time.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import type { Venue } from "../../src/platform/venues.ts";
import { announceRfq } from "../../src/rfq/announce-rfq.ts";
import { acceptQuote } from "../../src/rfq/accept-quote.ts";
import { commitOperations } from "../../src/rfq/book-group.ts";
import { cancelQuote } from "../../src/rfq/cancel-quote.ts";
import { cancelRequest } from "../../src/rfq/cancel-request.ts";
import type {
  AcceptLimit,
  AcceptPrice,
  AcceptQuote,
  CancelQuote,
  CancelRequest,
  Command,
  OpenRequest,
  PlaceQuote,
  Result,
  SetAcceptPrice,
} from "../../src/rfq/command.ts";
import { openRequest as openRequestOperation } from "../../src/rfq/open-request.ts";
import type { BookOperation } from "../../src/rfq/book-operation.ts";
import { placeQuote as placeQuoteOperation } from "../../src/rfq/place-quote.ts";
import { setAcceptPrice } from "../../src/rfq/standing-accept.ts";
import { readTerms } from "../../src/rfq/request-terms.ts";
import { matchView, quoteView, requestView } from "../../src/rfq/rfq-records.ts";
import type { CancelReason } from "../../src/rfq/statuses.ts";
import { submitCommand } from "../../src/rfq/submit.ts";
import { bookStream } from "../../src/streams/event-log.ts";
import { newAsset } from "./ledger.ts";
import { openRequestTerms, placeQuoteTerms } from "../../scripts/actors/terms.ts";
import { newUser } from "./users.ts";

/** A user or one of their keys. */
type Party = { readonly actor: Actor };

export type NewRequest = {
  readonly amount: bigint;
  /** Instead of `amount`. */
  readonly usdcAmount?: bigint;
  readonly side?: RequestSide;
  readonly expiresInSecs?: number;
  readonly disclosed?: boolean;
  readonly label?: string;
  readonly accept?: AcceptLimit;
};

/** The commands of a book, each with a new id. */
export const command = {
  openRequest: ({ actor }: Party, asset: AssetKey, terms: NewRequest): OpenRequest => ({
    op: "open_request",
    actor,
    receivedAt: now(),
    requestId: uuidv7(),
    ...openRequestTerms({
      ...terms,
      asset,
      amount: terms.usdcAmount === undefined ? terms.amount.toString() : null,
      usdcAmount: terms.usdcAmount?.toString() ?? null,
    }),
  }),
  placeQuote: (
    { actor }: Party,
    requestId: string,
    price: number,
    expiresInSecs = 30,
  ): PlaceQuote => ({
    op: "place_quote",
    actor,
    receivedAt: now(),
    quoteId: uuidv7(),
    ...placeQuoteTerms({ requestId, price, expiresInSecs }),
  }),
  cancelQuote: ({ actor }: Party, quoteId: string): CancelQuote => ({
    op: "cancel_quote",
    actor,
    receivedAt: now(),
    operationId: uuidv7(),
    quoteId,
  }),
  cancelRequest: ({ actor }: Party, requestId: string): CancelRequest => ({
    op: "cancel_request",
    actor,
    receivedAt: now(),
    operationId: uuidv7(),
    requestId,
  }),
  accept: ({ actor }: Party, quoteId: string): AcceptQuote => ({
    op: "accept",
    actor,
    receivedAt: now(),
    matchId: uuidv7(),
    quoteId,
  }),
  acceptPrice: (
    { actor }: Party,
    requestId: string,
    price: number,
    side: Side | null = null,
  ): AcceptPrice => ({
    op: "accept_price",
    actor,
    receivedAt: now(),
    matchId: uuidv7(),
    requestId,
    price,
    side,
  }),
  setAcceptPrice: (
    { actor }: Party,
    requestId: string,
    price: number | null,
    side: Side | null = null,
  ): SetAcceptPrice => ({
    op: "set_accept_price",
    actor,
    receivedAt: now(),
    operationId: uuidv7(),
    requestId,
    price,
    side,
  }),
};

/** Sends a command to its book, as the routes and the sockets do. */
export const submit = (sent: Command): Promise<Result> => submitCommand(env, sent);

/** Opens a request. Throws if it is rejected. */
export async function openRequest(requester: Party, asset: AssetKey, terms: NewRequest) {
  const result = await submit(command.openRequest(requester, asset, terms));
  if (!result.ok || result.kind !== "request") throw new Error(JSON.stringify(result));
  return requestView(result.row);
}

/** Places a quote. Throws if it is rejected. */
export async function placeQuote(
  maker: Party,
  requestId: string,
  price: number,
  expiresInSecs?: number,
) {
  const result = await submit(command.placeQuote(maker, requestId, price, expiresInSecs));
  if (!result.ok || result.kind !== "quote") throw new Error(JSON.stringify(result));
  return quoteView(result.row);
}

/** The match of an accept. Throws if it was rejected. */
export function matchOf(result: Result) {
  if (!result.ok || result.kind !== "match") throw new Error(JSON.stringify(result));
  return matchView(result.row);
}

/** Makes `count` calls, as many at once as one user may have in flight in a book. */
export async function inWaves<T>(count: number, call: () => Promise<T>): Promise<T[]> {
  const { RFQ_COMMANDS_IN_FLIGHT_PER_USER: atOnce } = config(env);
  const results: T[] = [];
  while (results.length < count) {
    const wave = Math.min(atOnce, count - results.length);
    results.push(...(await Promise.all(Array.from({ length: wave }, call))));
  }
  return results;
}

/** `ok`, or the code of the rejection. */
export function outcomeOf(result: Result): string {
  return result.ok ? "ok" : result.problem.code;
}

type Funds = { readonly usdc?: bigint; readonly token?: bigint };
type MarketTerms = Partial<NewRequest> & {
  readonly venue?: Venue;
  readonly requester?: Funds;
  readonly maker?: Funds;
};
const FUNDS: Funds = { usdc: 1_000n, token: 1_000n };

/** A book with an open request, by default a Bid for 10, and a maker who has not quoted yet. */
export async function openMarket(terms: MarketTerms = {}) {
  const { key: book } = newAsset(terms.venue);
  const newParty = ({ usdc, token } = FUNDS) => newUser({ usdc, [book]: token });
  const requester = await newParty(terms.requester);
  const maker = await newParty(terms.maker);
  const request = await openRequest(requester, book, { amount: 10n, ...terms });
  return { book, stream: bookStream(book), requester, maker, request };
}

/** A market in which the maker has quoted. The quote expires after 30 s. */
export async function quotedMarket(
  terms: MarketTerms & { readonly price?: number; readonly quoteSecs?: number } = {},
) {
  const market = await openMarket(terms);
  const { maker, request } = market;
  const price = terms.price ?? 500_000;
  return { ...market, quote: await placeQuote(maker, request.request_id, price, terms.quoteSecs) };
}

/** A command as the book commits it. */
export async function operationOf(
  sent: Command,
  settings: Config = config(env),
  db: D1Database = env.DB,
): Promise<BookOperation> {
  switch (sent.op) {
    case "open_request":
      return openRequestOperation(sent, settings);
    case "place_quote":
    case "set_accept_price": {
      const [terms] = await readTerms(db, [sent.requestId]);
      if (terms === undefined) throw new Error(`no request ${sent.requestId}`);
      return sent.op === "place_quote"
        ? placeQuoteOperation(sent, terms, settings)
        : setAcceptPrice(sent, terms, settings);
    }
    case "cancel_quote":
      return cancelQuote(sent);
    case "cancel_request":
      return cancelRequest(sent);
    case "accept":
    case "accept_price":
      return acceptQuote(sent, settings);
  }
}

/** Why the guard of an operation does not apply now. Undefined if it does. */
export async function rejectionOf(
  operation: BookOperation,
  db: D1Database = env.DB,
): Promise<Result | undefined> {
  const [rejection] = await ask(db, [operation.rejection()]);
  return rejection;
}

/**
 * Commits a command in a group of its own without the book's object, whose alarm would end what is
 * due at an instant that the test does not control.
 */
export async function commitCommand(
  book: AssetKey,
  sent: Command,
  db: D1Database = env.DB,
): Promise<Result> {
  const operation = await operationOf(sent, config(env), db);
  const group = await commitOperations(db, book, [operation]);
  if (!group.committed) throw new Error("the group was rolled back", { cause: group.cause });
  const result = operation.result(group.effects) ?? (await rejectionOf(operation, db));
  if (result === undefined) throw new Error("the guard did not apply, and nothing rejects it");
  return result;
}

/** Cancels a quote as the service does on its own. */
export async function cancelAsService(
  quoteId: string,
  reason: CancelReason,
  replacedBy?: string,
): Promise<void> {
  const group = newGroup();
  const operation = uuidv7();
  const outcome = await commit(env.DB, group, [
    sql`UPDATE quotes SET status = 'cancelled', cancel_reason = ${reason},
      replaced_by = ${replacedBy === undefined ? null : uuid(replacedBy)},
      ended_by = ${uuid(operation)}, ended_group = ${group.seq}
      WHERE quote_id = ${uuid(quoteId)}`,
    ...announceRfq(group),
  ]);
  if (!outcome.committed) throw new Error("not cancelled", { cause: outcome.cause });
}

let advancedMs = 0;
const useAdvancedClock = () => setClock({ now: () => Date.now() + advancedMs });

/** Runs a test on a database whose clock nobody has advanced. */
export async function withRealClock(test: () => Promise<void>): Promise<void> {
  setClock({});
  try {
    await test();
  } finally {
    useAdvancedClock();
  }
}

/**
 * Moves the clocks of D1 and of the Worker forward, to the same instant. D1's never goes below the
 * instant of the latest commit group, so a group from the future moves it. It stands still until
 * real time is there, so a test of more than a few seconds calls this again, also with 0. Only a
 * `*.clock.test.ts` may call it.
 */
export async function advanceClock(ms: number): Promise<void> {
  const [group] = await all<{ at: number }>(
    env.DB,
    sql`INSERT INTO commit_groups (group_id, at, voided)
      SELECT ${uuid(uuidv7())}, max(${NOW}, ${now()}) + ${ms}, 0 RETURNING at`,
  );
  advancedMs = group!.at - Date.now();
  useAdvancedClock();
}
