/** Builders for RFQ tests: each test has a book and users of its own. */
import { env } from "cloudflare:workers";
import type { Side } from "../../src/assets/fields.ts";
import { uuidv7 } from "../../src/platform/uuid.ts";
import type { Result, Command } from "../../src/rfq/command.ts";
import { submitCommand } from "../../src/rfq/submit.ts";
import { matchView, quoteView, requestView } from "../../src/rfq/records.ts";
import { newUser } from "./users.ts";
import type { Actor } from "../../src/platform/actor.ts";

let books = 0;

/** A book nobody else in the run uses. */
export function newBook(venue: "venue_one" | "venue_two" = "venue_one"): string {
  books += 1;
  return `${venue}:0x${crypto.randomUUID().replaceAll("-", "").slice(0, 12).replace(/^0+/, "1")}${books.toString(16)}`;
}

export async function newActor(funds: Readonly<Record<string, bigint>> = {}): Promise<Actor> {
  return (await newUser(funds)).actor;
}

export const send = (command: Command): Promise<Result> => submitCommand(env, command);

export async function openRequest(
  actor: Actor,
  asset: string,
  terms: { amount: bigint; side?: Side; expiresInSecs?: number; disclosed?: boolean },
) {
  const answer = await send({
    op: "open_request",
    actor,
    requestId: uuidv7(),
    asset,
    amount: terms.amount.toString(),
    side: terms.side ?? "Bid",
    disclosed: terms.disclosed ?? false,
    expiresInSecs: terms.expiresInSecs ?? 300,
  });
  if (!answer.ok || answer.kind !== "request") throw new Error(JSON.stringify(answer));
  return requestView(answer.row);
}

export function quote(
  actor: Actor,
  requestId: string,
  price: number,
  expiresInSecs = 30,
): Promise<Result> {
  return send({ op: "place_quote", actor, quoteId: uuidv7(), requestId, price, expiresInSecs });
}

export async function placedQuote(
  actor: Actor,
  requestId: string,
  price: number,
  expiresInSecs = 30,
) {
  const answer = await quote(actor, requestId, price, expiresInSecs);
  if (!answer.ok || answer.kind !== "quote") throw new Error(JSON.stringify(answer));
  return quoteView(answer.row);
}

export function accept(actor: Actor, quoteId: string): Promise<Result> {
  return send({ op: "accept", actor, matchId: uuidv7(), quoteId });
}

export function matchOf(answer: Result) {
  if (!answer.ok || answer.kind !== "match") throw new Error(JSON.stringify(answer));
  return matchView(answer.row);
}

export function codeOf(answer: Result): string {
  return answer.ok ? "ok" : answer.problem.code;
}
