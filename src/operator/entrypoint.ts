/**
 * The entrypoint of operator commands. No public route reaches it. scripts/operator.ts calls it
 * through a service binding in the operator's Cloudflare account, or through a loopback port of the
 * local stack. Each call carries an order that an operator has signed.
 */
import { WorkerEntrypoint } from "cloudflare:workers";
import { config, type Config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import {
  invalidRequest,
  Problem,
  problem,
  problemBody,
  type ProblemData,
} from "../platform/problem.ts";
import { approve, propose } from "./approvals.ts";
import { carryOut, type CommandName, COMMANDS, isCommand, isRead, needsTwo } from "./commands.ts";
import type { OperatorContext } from "./context.ts";
import { Listed } from "./listed.ts";
import { checkOptions } from "./options.ts";
import { OperatorRejection } from "./operator-rejection.ts";
import { claimOrder, keepAnswer, type Order, readOrder } from "./order.ts";

export class Operator extends WorkerEntrypoint<Env> {
  override async fetch(request: Request): Promise<Response> {
    return new Response(await this.#answer(request), {
      headers: { "content-type": "application/json" },
    });
  }

  async #answer(request: Request): Promise<string> {
    try {
      requireJson(request);
      const settings = config(this.env);
      const order = await readOrder(await request.json(), settings);
      const [name, words] = commandOf(order.command);
      checkOptions(name, words, order.options);
      const claimed = await claimOrder(this.env.DB, settings, order, !isRead(name));
      if (claimed !== "claimed") return claimed.answer;
      const answer = JSON.stringify(await this.#carryOut(settings, order));
      // A read has no effect, and may be large.
      if (!isRead(name)) await keepAnswer(this.env.DB, settings, order, answer);
      return answer;
    } catch (error) {
      return JSON.stringify({ ok: false, problem: problemOf(error) });
    }
  }

  async #carryOut(settings: Config, order: Order): Promise<object> {
    try {
      const result = (await this.#run(settings, order)) ?? null;
      if (!(result instanceof Listed)) return { ok: true, result };
      return { ok: true, result: result.rows, next_cursor: result.next };
    } catch (error) {
      return { ok: false, problem: problemOf(error) };
    }
  }

  async #run(settings: Config, order: Order): Promise<unknown> {
    const { operator, command, options } = order;
    const [name, words] = commandOf(command);
    const context: OperatorContext = { env: this.env, settings, operator, words, options };
    if (needsTwo(settings, name, options)) return propose(context, { command, options });
    log("info", "operator_command", { command: name, operator });
    if (name !== "approve") return carryOut(name, context);
    const proposal = await approve(context);
    const [proposed, rest] = commandOf(proposal.command);
    log("info", "operator_command", { command: proposed, operator });
    return carryOut(proposed, {
      ...context,
      words: rest,
      options: { ...proposal.options, ...passwordOf(options) },
    });
  }
}

/** The only option that an approver adds: the password that their tool has made. */
function passwordOf({ password }: OperatorContext["options"]): { password?: unknown } {
  return password === undefined ? {} : { password };
}

/** A web page can send other types across origins without asking. */
function requireJson(request: Request): void {
  if (request.headers.get("content-type")?.startsWith("application/json") !== true)
    throw problem("content_type_unsupported", "A command requires content-type: application/json.");
}

/** Splits `venue pause venue_one` into the command `venue pause` and the word `venue_one`. */
function commandOf(words: readonly string[]): [name: CommandName, rest: readonly string[]] {
  for (const length of [2, 1]) {
    const name = words.slice(0, length).join(" ");
    if (isCommand(name)) return [name, words.slice(length)];
  }
  throw invalidRequest([
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
