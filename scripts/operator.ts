/**
 * `npm run operator -- <command>`: the operator's work, against the local stack or, with --remote, the deployed service.
 * It reaches the Worker's entrypoint `Operator` directly; no public route does any of this.
 */
import { randomBytes } from "node:crypto";
import { userInfo } from "node:os";
import { join } from "node:path";
import {
  type Parsed,
  UsageError,
  commandOf,
  commandUsage,
  parseCommand,
  usageAfter,
} from "./operator/commands.ts";
import { readable } from "./operator/print.ts";
import { tellWhenSlow } from "./operator/progress.ts";
import { keepStdout } from "./operator/stdout.ts";
import { OFFLINE, ROOT } from "./stack/bundle.ts";
import {
  type OperatorResponse,
  type OperatorRequest,
  type OperatorProblem,
  callOperator,
} from "./stack/operator-call.ts";
import { DEFAULT_STACK_DIR, readOperatorFile } from "./stack/stack-file.ts";

/** Wrong usage is told in JSON too, so this is known before anything is parsed. */
const wantsJson = process.argv.includes("--json");
const print = keepStdout();

const MAKES_PASSWORD = new Set(["user create", "user set-password"]);

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  try {
    const parsed = parseCommand(args, loginName());
    if (!parsed.help) return await carryOut(parsed);
    print(wantsJson ? JSON.stringify({ ok: true, result: { usage: parsed.text } }) : parsed.text);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    if (wantsJson)
      print(JSON.stringify({ ok: false, problem: { code: "usage", detail: error.message } }));
    else console.error(`${usageAfter(error)}\n\n${error.message}`);
    return 2;
  }
}

async function carryOut({
  command,
  remote,
  dir,
}: Exclude<Parsed, { help: true }>): Promise<number> {
  withPassword(command);
  const stopTelling = tellWhenSlow(command.command.join(" "));
  let answer: OperatorResponse;
  try {
    answer = withShownPassword(
      command,
      remote ? await askRemote(command) : await askLocal(command, dir),
    );
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    if (wantsJson) print(JSON.stringify({ ok: false, problem: { code: "not_reachable", detail } }));
    else console.error(detail);
    return 3;
  } finally {
    stopTelling();
  }
  if (wantsJson) print(JSON.stringify(answer));
  else if (answer.ok) print(readable(answer.result));
  else tellRefusal(command, answer.problem);
  if (answer.ok) for (const remark of remarksOn(answer.result)) console.error(remark);
  return exitCodeOf(answer);
}

/** What the entrypoint says of a value is wrong usage as well. */
function exitCodeOf(answer: OperatorResponse): number {
  if (answer.ok) return isBad(answer.result) ? 1 : 0;
  return answer.problem.code === "invalid_request" ? 2 : 1;
}

function tellRefusal({ command }: OperatorRequest, { code, detail, title }: OperatorProblem): void {
  const message = `${code}: ${detail ?? title ?? "refused"}`;
  const meant = code === "invalid_request" ? commandOf(command) : undefined;
  console.error(meant === undefined ? message : `${commandUsage(meant)}\n\n${message}`);
}

/** A password on the command line would stay in the shell's history. */
function withPassword({ command, options }: OperatorRequest): void {
  if (MAKES_PASSWORD.has(command.join(" ")) && options !== undefined)
    options["password"] = randomBytes(18).toString("base64url");
}

/** Shown this once, in JSON too: it is kept nowhere. */
function withShownPassword(
  { command, options }: OperatorRequest,
  answer: OperatorResponse,
): OperatorResponse {
  if (!answer.ok || !MAKES_PASSWORD.has(command.join(" "))) return answer;
  return { ok: true, result: { ...Object(answer.result), password: options?.["password"] } };
}

/** A chain without a block is one whose holdings `reconcile` could not compare. */
function remarksOn(result: unknown): string[] {
  const block: unknown =
    typeof result === "object" && result !== null && "block" in result ? result.block : undefined;
  if (typeof block !== "object" || block === null) return [];
  return Object.entries(block).flatMap(([chain, at]) =>
    at === null ? [`${chain} could not be asked: what it holds was not compared`] : [],
  );
}

/** `reconcile` and `audit verify` answer even when things are not as they should be. */
function isBad(result: unknown): boolean {
  return typeof result === "object" && result !== null && "ok" in result && result.ok === false;
}

function askLocal(
  command: OperatorRequest,
  dir = process.env["RFQ_DIR"] || DEFAULT_STACK_DIR,
): Promise<OperatorResponse> {
  const { url } = readOperatorFile(dir);
  return callOperator((request) => fetch(request), url, command).catch((error: unknown) => {
    const cause =
      error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
    throw error instanceof TypeError
      ? new Error(`The stack of ${dir} does not answer: ${cause}`)
      : error;
  });
}

/** Through a service binding that wrangler opens with the operator's own login. */
async function askRemote(command: OperatorRequest): Promise<OperatorResponse> {
  Object.assign(process.env, OFFLINE);
  const { getPlatformProxy } = await import("wrangler");
  type Bindings = { OPERATOR: { fetch(url: string, init: RequestInit): Promise<Response> } };
  const proxy = await getPlatformProxy<Bindings>({
    configPath: join(ROOT, "scripts", "operator.wrangler.toml"),
    persist: false,
  });
  try {
    return await callOperator(
      async (request) =>
        proxy.env.OPERATOR.fetch(request.url, {
          method: "POST",
          headers: request.headers,
          body: await request.text(),
        }),
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
