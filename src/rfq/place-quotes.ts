/** Places several quotes: one call per book, in the order sent. Each succeeds or fails alone. */
import type { Actor } from "../platform/actor.ts";
import { config } from "../platform/config.ts";
import { InFlight } from "../platform/in-flight.ts";
import { errorFields, log } from "../platform/log.ts";
import { Problem, problemBody, unavailable } from "../platform/problem.ts";
import { MAX_CLOCK_LEAD_MS, now, sleep } from "../platform/time.ts";
import { bookObject } from "../streams/notify.ts";
import { type PlaceQuote, refused, reject, type Result } from "./command.ts";
import { quoteView } from "./rfq-records.ts";
import { unwrap } from "./result.ts";
import { limitRefusalsOfQuotes } from "./refusals.ts";
import { tooManyInFlight } from "./rejections.ts";
import { type Book, booksOf, rememberBook } from "./submit.ts";

/** Quotes of one call over REST, and of one frame, which is at most 16 KiB. */
export const MAX_QUOTES_PER_CALL = 50;
export const MAX_QUOTES_PER_FRAME = 20;
/** Calls of one user in flight, because one call is as much work as many commands. */
export const MAX_QUOTE_CALLS_IN_FLIGHT = 2;

const inFlight = new InFlight<string>(MAX_QUOTE_CALLS_IN_FLIGHT);

/** The results in the order of the commands. `own` is the caller if it is a book. */
export async function placeQuotes(
  env: Env,
  actor: Actor,
  commands: readonly PlaceQuote[],
  own?: Book,
): Promise<readonly Result[]> {
  const results = await inFlight.run(actor.userId, () =>
    limitRefusalsOfQuotes(env, actor, () => sendToBooks(env, commands, own)),
  );
  if (results !== undefined) return results;
  throw new Problem(tooManyInFlight(MAX_QUOTE_CALLS_IN_FLIGHT, "the route for several quotes"));
}

async function sendToBooks(
  env: Env,
  commands: readonly PlaceQuote[],
  own: Book | undefined,
): Promise<readonly Result[]> {
  let assets: ReadonlyMap<string, string>;
  try {
    assets = await booksOf(
      env.DB,
      "request",
      commands.map(({ requestId }) => requestId),
    );
  } catch (error) {
    log("error", "rfq.book_not_found", { op: "place_quotes", ...errorFields(error) });
    return commands.map(() => refused(unavailable("none")));
  }
  const results = new Map<PlaceQuote, Result>();
  const byBook = Map.groupBy(commands, ({ requestId }) => assets.get(requestId));
  await Promise.all(
    [...byBook].map(async ([asset, some]) => {
      if (asset === undefined) return;
      const sent = await sendToBook(env, asset, some, own);
      some.forEach((command, index) => results.set(command, sent[index] ?? UNKNOWN_OUTCOME));
    }),
  );
  return commands.map(
    (command) =>
      results.get(command) ??
      reject("request_unknown", `There is no request ${command.requestId}.`),
  );
}

const UNKNOWN_OUTCOME = refused(unavailable("unknown"));

/** Fewer results than commands: the outcome of the others is unknown. */
async function sendToBook(
  env: Env,
  asset: string,
  commands: readonly PlaceQuote[],
  own: Book | undefined,
): Promise<readonly Result[]> {
  try {
    const book = own?.asset === asset ? own : bookObject(env, asset);
    const results: readonly Result[] | undefined = await Promise.race([
      book.submitQuotes(commands),
      tooLate(env, commands),
    ]);
    if (results === undefined) return [];
    for (const [index, { quoteId }] of commands.entries())
      if (results[index]?.ok === true) rememberBook(quoteId, asset);
    return results;
  } catch (error) {
    log("error", "rfq.book_unreachable", { asset, op: "place_quotes", ...errorFields(error) });
    return [];
  }
}

/**
 * Resolves when a command that has not taken effect by then never will. One slow book does not
 * delay the results of the others further.
 */
async function tooLate(env: Env, commands: readonly PlaceQuote[]): Promise<undefined> {
  const receivedAt = Math.max(...commands.map((command) => command.receivedAt));
  const waitMs = config(env).RFQ_COMMAND_MAX_WAIT_MS + MAX_CLOCK_LEAD_MS;
  await sleep(Math.max(0, receivedAt + waitMs - now()));
}

/** The body of a response. Each item has a quote or a problem. */
export function quotesView(results: readonly Result[], requestId: () => string) {
  return {
    results: results.map((result) => {
      if (!result.ok)
        return { quote: null, problem: problemBody(result.problem, requestId()), replayed: false };
      const { row, replayed } = unwrap(result, "quote");
      return { quote: quoteView(row), problem: null, replayed };
    }),
  };
}
