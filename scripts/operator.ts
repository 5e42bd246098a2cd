/**
 * `npm run operator -- <command>`: the operator's work, against the local stack or, with --remote, the deployed service.
 * It reaches the Worker's entrypoint `Operator` directly; no public route does any of this.
 */
import { randomBytes } from "node:crypto";
import { userInfo } from "node:os";
import { join } from "node:path";
import { UsageError, parseCommand, usage } from "./operator/commands.ts";
import { readable } from "./operator/print.ts";
import { OFFLINE, ROOT } from "./stack/bundle.ts";
import { type OperatorAnswer, type OperatorCommand, askOperator } from "./stack/operator-call.ts";
import { DEFAULT_STACK_DIR, readOperatorFile } from "./stack/stack-file.ts";

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  let parsed;
  try {
    parsed = parseCommand(args, loginName());
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\n\n${usage()}`);
    return 2;
  }
  if (parsed.help) {
    console.log(usage());
    return 0;
  }
  const { command, remote, json, dir } = parsed;
  withPassword(command);
  let answer: OperatorAnswer;
  try {
    answer = remote ? await askRemote(command) : await askLocal(command, dir);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if (json) console.log(JSON.stringify({ ok: false, problem: { code: "not_reachable", detail: message } }));
    else console.error(message);
    return 3;
  }
  if (json) console.log(JSON.stringify(answer));
  else if (answer.ok) console.log(readable(shown(command, answer.result)));
  else console.error(`${answer.problem.code}: ${answer.problem.detail ?? answer.problem.title ?? "refused"}`);
  return answer.ok && !isBad(answer.result) ? 0 : 1;
}

/** A password on the command line would stay in the shell's history. */
function withPassword({ command, options }: OperatorCommand): void {
  if (command.join(" ") === "user create" && options !== undefined) options["password"] = randomBytes(18).toString("base64url");
}

function shown({ command, options }: OperatorCommand, result: unknown): unknown {
  if (command.join(" ") !== "user create" || typeof result !== "object") return result;
  return { ...result, password: options?.["password"] };
}

/** `reconcile` and `audit verify` answer even when things are not as they should be. */
function isBad(result: unknown): boolean {
  return typeof result === "object" && result !== null && "ok" in result && result.ok === false;
}

function askLocal(command: OperatorCommand, dir = DEFAULT_STACK_DIR): Promise<OperatorAnswer> {
  const { url } = readOperatorFile(dir);
  return askOperator((request) => fetch(request), url, command).catch((error: unknown) => {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw error instanceof TypeError ? new Error(`The stack of ${dir} does not answer: ${cause}`) : error;
  });
}

/** Through a service binding that wrangler opens with the operator's own login. */
async function askRemote(command: OperatorCommand): Promise<OperatorAnswer> {
  Object.assign(process.env, OFFLINE);
  const { getPlatformProxy } = await import("wrangler");
  type Bindings = { OPERATOR: { fetch(url: string, init: RequestInit): Promise<Response> } };
  const proxy = await getPlatformProxy<Bindings>({
    configPath: join(ROOT, "scripts", "operator.wrangler.toml"),
    persist: false,
  });
  try {
    return await askOperator(
      async (request) => proxy.env.OPERATOR.fetch(request.url, { method: "POST", headers: request.headers, body: await request.text() }),
      "http://operator.internal/",
      command,
    );
  } finally {
    await proxy.dispose();
  }
}

function loginName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run under a user id that has no name.
    return "unknown";
  }
}
