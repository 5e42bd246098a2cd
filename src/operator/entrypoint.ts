/**
 * Operator work. No public route leads here: the entrypoint is reached over a service binding of the operator's own
 * Cloudflare account, or over a loopback socket of the local stack (scripts/operator.ts).
 */
import { WorkerEntrypoint } from "cloudflare:workers";
import { config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { invalidRequest, Problem, problemBody, type ProblemData } from "../platform/problem.ts";
import { COMMANDS } from "./commands.ts";
import { OperatorRejection } from "./operator-rejection.ts";

type Order = {
  readonly command: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
  readonly operator: string;
};

const OPERATOR_NAME = /^[A-Za-z0-9._@-]{1,64}$/;

export class Operator extends WorkerEntrypoint<Env> {
  override async fetch(request: Request): Promise<Response> {
    try {
      const order = readOrder(await request.json());
      const [name, words] = commandOf(order.command);
      const result = await COMMANDS[name]?.({
        env: this.env,
        settings: config(this.env),
        operator: order.operator,
        words,
        options: order.options,
      });
      log("info", "operator_command", { command: name, operator: order.operator });
      return Response.json({ ok: true, result: result ?? null });
    } catch (error) {
      return Response.json({ ok: false, problem: problemOf(error) });
    }
  }
}

function readOrder(body: unknown): Order {
  const { command, options, operator } = Object(body) as Partial<Order>;
  if (!Array.isArray(command) || !command.every((word) => typeof word === "string")) throw usage();
  if (typeof operator !== "string" || !OPERATOR_NAME.test(operator)) {
    throw invalidRequest([
      { path: "operator", message: "must be 1 to 64 letters, digits or . _ @ -" },
    ]);
  }
  return { command, options: Object(options) as Record<string, unknown>, operator };
}

/** `venue pause venue_one` is the command `venue pause` with one more word. */
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
    detail: "The command failed; the Worker's log says why.",
    extensions: { outcome: "unknown" },
  };
  return problemBody(failed, requestId);
}
