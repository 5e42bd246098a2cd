/** Commands that arrive on a socket. Rules, errors and results are those of the REST routes. */
import * as z from "zod";
import { uuidField } from "../http/fields.ts";
import { type Config, config } from "../platform/config.ts";
import { InFlight } from "../platform/in-flight.ts";
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
import { limitActor } from "../http/rate-limit.ts";
import { validate } from "../http/request.ts";
import { now, toWireTime } from "../platform/time.ts";
import { uuidv7 } from "../platform/uuid.ts";
import { resultBody } from "./result.ts";
import type { Command, PlaceQuote, Sent } from "./command.ts";
import { MAX_QUOTES_PER_FRAME, placeQuotes, quotesView } from "./place-quotes.ts";
import { tooManyInFlight } from "./rejections.ts";
import { refusedAlready } from "./refusals.ts";
import { acceptOf, checkIdempotencyKeys, placeQuoteOf, placeQuotesOf } from "./read-commands.ts";
import { AcceptBody, idempotencyKeyField, QuoteBody, quotesBody } from "./schemas.ts";
import { type Book, type Submitter, findTogether, submitCommand } from "./submit.ts";
import {
  CLOSE_POLICY,
  CLOSE_TOO_BIG,
  closeSocket,
  readState,
  writeState,
} from "../streams/socket.ts";

/** Larger frames close the socket, because they are never a command. */
export const MAX_FRAME_BYTES = 16 * 1_024;
/** The tenth malformed frame within a minute closes the socket. The ninth is a warning. */
export const MAX_MALFORMED_FRAMES = 10;
const MALFORMED_WINDOW_MS = 60_000;
/**
 * Frames of a user in a second and on one stream, twice what the rate class `trade` admits. A
 * client that waits for responses never gets there, and even a refused frame takes time.
 */
export const MAX_FRAMES = 400;
const FRAMES_WINDOW_MS = 1_000;
const COMMAND_ID = /^.{1,64}$/su;

const Quote = QuoteBody.extend({ idempotency_key: idempotencyKeyField.optional() });
const Quotes = quotesBody(MAX_QUOTES_PER_FRAME);
const CancelBody = z.strictObject({ quote_id: uuidField });
const SCHEMAS = { quote: Quote, quotes: Quotes, cancel_quote: CancelBody, accept: AcceptBody };

/** A frame with a known op and known fields. Their values may be wrong. */
type Shaped = Record<string, unknown> & { readonly op: keyof typeof SCHEMAS };

/** The body of a result, or the problem. */
type Outcome =
  | { readonly data: unknown; readonly replayed?: boolean }
  | { readonly problem: ProblemData };

export class SocketCommands {
  readonly #env: Env;
  readonly #settings: Config;
  readonly #submitter: Submitter;
  readonly #inFlight: InFlight<WebSocket>;
  /** More sockets on the same stream give a user no more commands in flight. */
  readonly #usersInFlight: InFlight<string>;
  readonly #frames = new Map<string, number>();
  #framesSince = 0;

  /** `book` is the object that holds the sockets, if it is a book. */
  constructor(env: Env, book?: Book) {
    this.#env = env;
    this.#submitter = { own: book, find: findTogether(env.DB) };
    this.#settings = config(env);
    this.#inFlight = new InFlight(this.#settings.RFQ_COMMANDS_IN_FLIGHT_PER_SOCKET);
    this.#usersInFlight = new InFlight(this.#settings.RFQ_COMMANDS_IN_FLIGHT_PER_USER);
  }

  /** Carries out the command of a frame and sends its result down the same socket. Never throws. */
  async receive(socket: WebSocket, frame: string | ArrayBuffer): Promise<void> {
    // Frames in flight still arrive after we have closed the socket. They are ignored.
    if (socket.readyState !== WebSocket.READY_STATE_OPEN) return;
    if (Buffer.byteLength(frame) > MAX_FRAME_BYTES)
      return closeSocket(socket, CLOSE_TOO_BIG, "frame over 16 KiB");
    const { actor, armed, place } = readState(socket);
    if (this.#countFrame(actor.userId) > MAX_FRAMES)
      return closeSocket(socket, CLOSE_POLICY, "too many frames");
    const sent = { actor, receivedAt: now(), socketId: armed ? place : undefined };
    let id: string | null = null;
    try {
      const fields = readFrame(frame);
      id = readId(fields);
      checkShape(fields);
      const refused = refusedAlready(actor, fields["op"]);
      if (refused !== undefined) return replyProblem(socket, id, refused);
      const limit = this.#settings.RFQ_COMMANDS_IN_FLIGHT_PER_SOCKET;
      const outcome = (await this.#inFlight.run(socket, () => this.#carryOut(fields, sent))) ?? {
        problem: tooManyInFlight(limit, "this socket"),
      };
      if ("data" in outcome) reply(socket, { type: "result", id, ...outcome });
      else replyProblem(socket, id, outcome.problem);
    } catch (error) {
      if (error instanceof MalformedFrame) return rejectMalformed(socket, id, error.data);
      if (error instanceof Problem) return replyProblem(socket, id, error.data);
      log("error", "streams.command_failed", errorFields(error));
      replyProblem(socket, id, {
        code: "internal",
        detail: "The command failed.",
        extensions: { outcome: "unknown" },
      });
    }
  }

  /** Limits in memory come before those that need a call, so a flood is refused at little cost. */
  async #carryOut(fields: Shaped, sent: Sent): Promise<Outcome> {
    const limit = this.#settings.RFQ_COMMANDS_IN_FLIGHT_PER_USER;
    const outcome = await this.#usersInFlight.run(sent.actor.userId, async () => {
      await limitActor(this.#env, this.#settings, "trade", sent.actor);
      const command = readCommand(fields, sent);
      return Array.isArray(command) ? this.#placeQuotes(command, sent) : this.#submit(command);
    });
    return outcome ?? { problem: tooManyInFlight(limit, "this stream") };
  }

  async #submit(command: Command): Promise<Outcome> {
    const result = await submitCommand(this.#env, command, this.#submitter);
    if (!result.ok) return { problem: result.problem };
    return { data: resultBody(result), replayed: result.replayed };
  }

  /** The first one has been counted as the frame. */
  async #placeQuotes(commands: readonly PlaceQuote[], { actor }: Sent): Promise<Outcome> {
    await limitActor(this.#env, this.#settings, "trade", actor, commands.length - 1);
    const results = await placeQuotes(this.#env, actor, commands, this.#submitter.own);
    return { data: quotesView(results, () => crypto.randomUUID()) };
  }

  #countFrame(userId: string): number {
    const at = now();
    if (at - this.#framesSince >= FRAMES_WINDOW_MS) {
      this.#framesSince = at;
      this.#frames.clear();
    }
    const count = (this.#frames.get(userId) ?? 0) + 1;
    this.#frames.set(userId, count);
    return count;
  }
}

/** A frame that cannot be parsed, or has an unknown op or field. Several close the socket. */
class MalformedFrame extends Problem {
  constructor(errors: readonly FieldError[]) {
    super(invalidRequest(errors).data);
  }
}

function readFrame(frame: string | ArrayBuffer): Record<string, unknown> {
  if (typeof frame !== "string") throw malformed("frame", "binary frames are not accepted");
  let value: unknown;
  try {
    value = parseJson(frame, "frame");
  } catch (error) {
    throw error instanceof Problem ? new MalformedFrame(error.data.errors ?? []) : error;
  }
  if (!isObject(value)) throw malformed("frame", "must be a JSON object");
  return value;
}

function readId(fields: Record<string, unknown>): string {
  const id = fields["id"];
  if (typeof id !== "string" || !COMMAND_ID.test(id))
    throw invalidRequest([{ path: "id", message: "must be a string of 1 to 64 characters" }]);
  delete fields["id"];
  return id;
}

/**
 * Throws if the op or a field is unknown. It runs before anything waits, so that the frames of a
 * burst are counted in the order in which they arrive, and those after the tenth are ignored.
 */
function checkShape(fields: Record<string, unknown>): asserts fields is Shaped {
  const { op, ...body } = fields;
  if (!isOp(op)) throw malformed("op", `must be one of ${Object.keys(SCHEMAS).join(", ")}`);
  const schema = SCHEMAS[op];
  if (Object.keys(body).every((name) => Object.hasOwn(schema.shape, name))) return;
  const errors: FieldError[] = [];
  validate(schema, body, "command", errors);
  throw new MalformedFrame(errors);
}

function isOp(op: unknown): op is Shaped["op"] {
  return typeof op === "string" && Object.hasOwn(SCHEMAS, op);
}

function readCommand({ op, ...fields }: Shaped, sent: Sent): Command | PlaceQuote[] {
  const { scopes } = sent.actor;
  if (!scopes.includes("trade")) {
    throw problem("scope_missing", "The ticket lacks the scope trade.", {
      required_scope: "trade",
      granted_scopes: scopes,
    });
  }
  if (op === "quote") {
    const quote = validFields(Quote, fields);
    checkIdempotencyKeys(sent, { command: quote.idempotency_key });
    return placeQuoteOf(quote, sent, quote.idempotency_key);
  }
  if (op === "quotes") return placeQuotesOf(validFields(Quotes, fields), sent, "command");
  if (op === "accept") return acceptOf(validFields(AcceptBody, fields), sent);
  const { quote_id } = validFields(CancelBody, fields);
  return { op: "cancel_quote", ...sent, operationId: uuidv7(), quoteId: quote_id };
}

function validFields<Schema extends z.ZodObject>(
  schema: Schema,
  fields: Record<string, unknown>,
): z.output<Schema> {
  const errors: FieldError[] = [];
  const value = validate(schema, fields, "command", errors);
  if (value === undefined) throw invalidRequest(errors);
  return value;
}

function rejectMalformed(socket: WebSocket, id: string | null, data: ProblemData): void {
  const count = countMalformedFrame(socket);
  const warning = "One more malformed frame within a minute closes the socket.";
  const isLast = count === MAX_MALFORMED_FRAMES - 1;
  replyProblem(socket, id, isLast ? { ...data, detail: `${data.detail}. ${warning}` } : data);
  if (count >= MAX_MALFORMED_FRAMES) closeSocket(socket, CLOSE_POLICY, "too many malformed frames");
}

/** The number of malformed frames within the current minute. */
function countMalformedFrame(socket: WebSocket): number {
  const state = readState(socket);
  const at = now();
  const { malformedSince, malformedFrames } =
    at - state.malformedSince > MALFORMED_WINDOW_MS
      ? { malformedSince: at, malformedFrames: 0 }
      : state;
  writeState(socket, { ...state, malformedSince, malformedFrames: malformedFrames + 1 });
  return malformedFrames + 1;
}

function reply(
  socket: WebSocket,
  message: { type: "result" | "error"; id: string | null; data: unknown; replayed?: boolean },
): void {
  try {
    socket.send(JSON.stringify({ ...message, at: toWireTime(now()) }));
  } catch {
    // The socket closed meanwhile. The outcome is unknown to the sender, as the contract says.
  }
}

function replyProblem(socket: WebSocket, id: string | null, data: ProblemData): void {
  reply(socket, { type: "error", id, data: problemBody(data, crypto.randomUUID()) });
}

function malformed(path: string, message: string): MalformedFrame {
  return new MalformedFrame([{ path, message }]);
}
