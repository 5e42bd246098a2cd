/** Commands that arrive on a socket. Rules, errors and results are those of the REST routes. */
import { z } from "@hono/zod-openapi";
import { uuidField, oneOf, pattern } from "../http/fields.ts";
import { config } from "../platform/config.ts";
import { isObject, parseJson } from "../http/json.ts";
import { log, errorFields } from "../platform/log.ts";
import {
  type FieldError,
  invalidRequest,
  Problem,
  problem,
  problemBody,
  type ProblemData,
} from "../platform/problem.ts";
import { limitRate } from "../http/rate-limit.ts";
import { validate } from "../http/request.ts";
import { toWireTime } from "../platform/time.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { resultBody } from "./result.ts";
import type { Command } from "./command.ts";
import { QuoteBody } from "./schemas.ts";
import { submitCommand } from "./submit.ts";
import { quoteTermsText } from "./terms-text.ts";
import { CLOSE_POLICY, closeSocket, readState } from "../streams/socket.ts";
import { type Actor, rateKeyOf } from "../platform/actor.ts";

const MAX_FRAME_BYTES = 16 * 1_024;
/** The tenth malformed frame within a minute closes the socket. */
const MAX_MALFORMED_FRAMES = 10;
const MALFORMED_WINDOW_MS = 60_000;
const COMMAND_ID = /^.{1,64}$/su;

const Quote = QuoteBody.extend({
  idempotency_key: pattern(
    /^[\x21-\x7e]{1,128}$/,
    "must be 1 to 128 visible ASCII characters",
  ).optional(),
});
const ById = z.strictObject({ quote_id: uuidField });
const Op = oneOf(["quote", "cancel_quote", "accept"]);

/**
 * Carries out the command of one frame and sends its result down the same socket, with the
 * command's own id. Never throws.
 */
export async function receiveCommand(
  env: Env,
  socket: WebSocket,
  frame: string | ArrayBuffer,
): Promise<void> {
  // Frames in flight still arrive after we have closed the socket. They are ignored.
  if (socket.readyState !== WebSocket.READY_STATE_OPEN) return;
  let id: string | null = null;
  try {
    const fields = readFrame(frame);
    id = readId(fields);
    const { actor } = readState(socket);
    await limitRate(env, config(env), "trade", rateKeyOf(actor));
    const command = readCommand(fields, actor);
    const result = await submitCommand(env, command);
    if (result.ok) reply(socket, { type: "result", id, data: resultBody(result) });
    else replyProblem(socket, id, result.problem);
  } catch (error) {
    if (error instanceof Problem) {
      // Rejected before any book was called: malformed, not allowed or too many.
      countMalformedFrame(socket);
      return replyProblem(socket, id, error.data);
    }
    log("error", "streams.command_failed", errorFields(error));
    replyProblem(socket, id, {
      code: "internal",
      detail: "The command failed.",
      extensions: { outcome: "unknown" },
    });
  }
}

function readFrame(frame: string | ArrayBuffer): Record<string, unknown> {
  if (typeof frame !== "string") throw invalidFrame("frame", "binary frames are not accepted");
  if (
    frame.length > MAX_FRAME_BYTES ||
    new TextEncoder().encode(frame).byteLength > MAX_FRAME_BYTES
  )
    throw invalidFrame("frame", "is over 16 KiB");
  const value = parseJson(frame, "frame");
  if (!isObject(value)) throw invalidFrame("frame", "must be a JSON object");
  return value;
}

function readId(fields: Record<string, unknown>): string {
  const id = fields["id"];
  if (typeof id !== "string" || !COMMAND_ID.test(id))
    throw invalidFrame("id", "must be a string of 1 to 64 characters");
  delete fields["id"];
  return id;
}

function readCommand(fields: Record<string, unknown>, actor: Actor): Command {
  const errors: FieldError[] = [];
  const op = Op.safeParse(fields["op"]);
  delete fields["op"];
  if (!op.success) throw invalidFrame("op", "must be one of quote, cancel_quote, accept");
  if (!actor.scopes.includes("trade")) {
    throw problem("scope_missing", "The ticket lacks the scope trade.", {
      required_scope: "trade",
      granted_scopes: actor.scopes,
    });
  }
  if (op.data === "quote") {
    const quote = validate(Quote, fields, "command", errors);
    if (quote === undefined) throw invalidRequest(errors);
    const expiresInSecs = quote.expires_in_secs;
    const terms = { requestId: quote.request_id, price: quote.price, expiresInSecs };
    return {
      op: "place_quote",
      actor,
      quoteId: uuidv7(),
      ...terms,
      ...(quote.idempotency_key === undefined
        ? {}
        : { idempotency: { key: quote.idempotency_key, terms: quoteTermsText(terms) } }),
    };
  }
  const named = validate(ById, fields, "command", errors);
  if (named === undefined) throw invalidRequest(errors);
  return op.data === "accept"
    ? { op: "accept", actor, matchId: uuidv7(), quoteId: named.quote_id }
    : { op: "cancel_quote", actor, operationId: uuidv7(), quoteId: named.quote_id };
}

function countMalformedFrame(socket: WebSocket): void {
  const state = readState(socket);
  const now = Date.now();
  const fresh = now - state.malformedSince > MALFORMED_WINDOW_MS;
  const malformedFrames = fresh ? 1 : state.malformedFrames + 1;
  socket.serializeAttachment({
    ...state,
    malformedSince: fresh ? now : state.malformedSince,
    malformedFrames,
  });
  if (malformedFrames >= MAX_MALFORMED_FRAMES)
    closeSocket(socket, CLOSE_POLICY, "too many bad frames");
}

function reply(
  socket: WebSocket,
  message: { type: "result" | "error"; id: string | null; data: unknown },
): void {
  try {
    socket.send(JSON.stringify({ ...message, at: toWireTime(Date.now()) }));
  } catch {
    // The socket closed meanwhile. The outcome is unknown to the sender, as the contract says.
  }
}

function replyProblem(socket: WebSocket, id: string | null, data: ProblemData): void {
  reply(socket, { type: "error", id, data: problemBody(data, crypto.randomUUID()) });
}

function invalidFrame(path: string, message: string): Problem {
  return invalidRequest([{ path, message }]);
}
