/**
 * The entrypoint of operator commands. No public route reaches it. scripts/operator.ts calls it
 * through a service binding in the operator's Cloudflare account, or through a loopback port of the
 * local stack.
 */
import { WorkerEntrypoint } from "cloudflare:workers";
import { config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import {
  invalidRequest,
  Problem,
  problem,
  problemBody,
  type ProblemData,
} from "../platform/problem.ts";
import { COMMANDS } from "./commands.ts";
import { OperatorRejection } from "./operator-rejection.ts";

type CommandRequest = {
  readonly command: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
  readonly operator: string;
};

const OPERATOR_NAME = /^[A-Za-z0-9._@-]{1,64}$/;

export class Operator extends WorkerEntrypoint<Env> {
  override async fetch(request: Request): Promise<Response> {
    try {
      requireJson(request);
      const { command, operator, options } = parseRequest(await request.json());
      const [name, words] = commandOf(command);
      const result = await COMMANDS[name]?.({
        env: this.env,
        settings: config(this.env),
        operator,
        words,
        options,
      });
      log("info", "operator_command", { command: name, operator });
      return Response.json({ ok: true, result: result ?? null });
    } catch (error) {
      return Response.json({ ok: false, problem: problemOf(error) });
    }
  }
}

/** A web page can send other types across origins without asking. */
function requireJson(request: Request): void {
  if (request.headers.get("content-type")?.startsWith("application/json") !== true)
    throw problem("content_type_unsupported", "A command requires content-type: application/json.");
}

function parseRequest(body: unknown): CommandRequest {
  const { command, options, operator } = Object(body) as Partial<CommandRequest>;
  if (!Array.isArray(command) || !command.every((word) => typeof word === "string")) throw usage();
  if (typeof operator !== "string" || !OPERATOR_NAME.test(operator)) {
    throw invalidRequest([
      { path: "operator", message: "must be 1 to 64 letters, digits or . _ @ -" },
    ]);
  }
  return { command, options: Object(options) as Record<string, unknown>, operator };
}

/** Splits `venue pause venue_one` into the command `venue pause` and the word `venue_one`. */
function commandOf(words: readonly string[]): [name: string, rest: readonly string[]] {
  for (const length of [2, 1]) {
    const name = words.slice(0, length).join(" ");
    if (Object.hasOwn(COMMANDS, name)) return [name, words.slice(length)];
  }
  throw usage();
}

function usage(): Problem {
  return invalidRequest([
    { path: "command", message: `must be one of: ${Object.keys(COMMANDS).join(", ")}` },
  ]);
}

function problemOf(error: unknown): Record<string, unknown> {
  const requestId = crypto.randomUUID();
  if (error instanceof OperatorRejection) return error.body(requestId);
  if (error instanceof Problem) return problemBody(error.data, requestId);
  log("error", "operator_failed", errorFields(error));
  const failed: ProblemData = {
    code: "internal",
    detail: "The command failed. See the Worker's log for the reason.",
    extensions: { outcome: "unknown" },
  };
  return problemBody(failed, requestId);
}
