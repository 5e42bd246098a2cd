/**
 * `npm run operator -- <command>` runs an operator command against the local stack, or against the
 * deployed service with --env. It calls the Worker's entrypoint `Operator` directly, because no
 * public route performs operator work.
 */
import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { carryOut } from "./operator/carry-out.ts";
import { dirOf, openChannel } from "./operator/channel.ts";
import {
  type Parsed,
  UsageError,
  commandOf,
  commandUsage,
  parseCommand,
  explained,
} from "./operator/commands.ts";
import { findLog } from "./operator/find-log.ts";
import { createOperatorKey } from "./operator/operator-key.ts";
import { formatResult, visible } from "./operator/print.ts";
import { reportProgress } from "./operator/progress.ts";
import { reserveStdout } from "./operator/stdout.ts";
import { csvOf, exportUser, wholeList } from "./operator/whole-list.ts";
import type { OperatorProblem, OperatorRequest, OperatorResponse } from "./stack/operator-call.ts";
import { readStackFile } from "./stack/stack-file.ts";

/** Read before the arguments are parsed, because usage errors are printed as JSON too. */
const wantsJson = process.argv.includes("--json");
const print = reserveStdout();

const SETS_PASSWORD = new Set(["user create", "user set-password"]);

process.exitCode = await main(process.argv.slice(2));

async function main(args: string[]): Promise<number> {
  try {
    const parsed = parseCommand(args);
    if (!parsed.help) return await execute(parsed);
    print(wantsJson ? JSON.stringify({ ok: true, result: { usage: parsed.text } }) : parsed.text);
    return 0;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    if (wantsJson)
      print(JSON.stringify({ ok: false, problem: { code: "usage", detail: error.message } }));
    else console.error(explained(error));
    return 2;
  }
}

async function execute({
  command,
  env,
  dir,
  wide,
  csv,
}: Exclude<Parsed, { help: true }>): Promise<number> {
  const send = command.options?.["send"] !== undefined;
  if (send && env !== undefined)
    throw new UsageError("--send works only on the local stack", commandOf(command.command));
  if (send) delete command.options?.["send"];
  withFile(command);
  const words = command.command.join(" ");
  const seal = words === "journal verify" ? command.options?.["from"] : undefined;
  if (seal !== undefined && !/^[1-9]\d{0,9}$/.test(seal))
    throw new UsageError("--from must be the number of a seal", commandOf(command.command));
  if (words === "log find" && env !== undefined && command.options?.["in"] === undefined)
    throw new UsageError(
      "log find --env needs --in: an export of Workers Logs, or what `wrangler tail` wrote",
      commandOf(command.command),
    );
  const progress = reportProgress(words);
  const channel = openChannel({ env, dir });
  const call = (order: OperatorRequest) => channel.call(order);
  let response: OperatorResponse;
  try {
    if (words === "key create") response = makeKey(command);
    else if (words === "user export") response = await exportUser(command, call);
    else if (csv) response = await wholeList(command, call, progress.at);
    else if (words === "log find") response = await findLog(dirOf(dir), command.options ?? {});
    else if (send) {
      // Only this command needs viem, which takes a second to load.
      const { sendRescue } = await import("./operator/send-rescue.ts");
      response = await sendRescue(readStackFile(dirOf(dir)).rpc_url, () => call(command));
    } else {
      const order = await completed(command, call);
      response = withShownPassword(order, await carryOut(order, call, progress.at));
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const detail = error instanceof Error ? error.message : String(error);
    if (wantsJson) print(JSON.stringify({ ok: false, problem: { code: "not_reachable", detail } }));
    else console.error(detail);
    return 3;
  } finally {
    progress.stop();
    await channel.close();
  }
  if (csv && response.ok) {
    if (!Array.isArray(response.result))
      throw new UsageError("--csv is for lists", commandOf(command.command));
    print(csvOf(response.result));
  } else if (wantsJson) print(JSON.stringify(response));
  else if (response.ok) print(formatResult(response.result, { wide }));
  else printProblem(command, response.problem);
  if (response.ok && typeof response.next_cursor === "string" && !wantsJson)
    console.error(`More: --cursor ${response.next_cursor}, or all with --csv`);
  if (response.ok) for (const warning of warningsOf(response.result)) console.error(warning);
  return exitCodeOf(response);
}

/** An invalid value counts as invalid usage, although the entrypoint reports it. */
function exitCodeOf(response: OperatorResponse): number {
  if (response.ok) return reportsFailure(response.result) ? 1 : 0;
  return response.problem.code === "invalid_request" ? 2 : 1;
}

function printProblem(
  { command }: OperatorRequest,
  { code, detail, title }: OperatorProblem,
): void {
  const message = `${code}: ${detail ?? title ?? "rejected"}`;
  const intended = code === "invalid_request" ? commandOf(command) : undefined;
  console.error(intended === undefined ? message : `${commandUsage(intended)}\n\n${message}`);
}

function makeKey({ options = {} }: OperatorRequest): OperatorResponse {
  const { name = "", deployment = "" } = options;
  return { ok: true, result: createOperatorKey(name, deployment) };
}

/** The entrypoint cannot read files, so it receives the text of `--file`. */
function withFile({ command, options }: OperatorRequest): void {
  const path = options?.["file"];
  if (options === undefined || path === undefined) return;
  try {
    options[command[0] === "market" ? "markets" : "records"] = readFileSync(path, "utf8");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(`--file: ${reason}`, commandOf(command));
  }
  delete options["file"];
}

type Proposal = { proposal_id: string; content: string };

/**
 * The order with what this tool adds. An approval signs the hash of the proposal's content, which
 * is shown first. A password is generated here, because one on the command line would stay in the
 * shell's history.
 */
async function completed(
  order: OperatorRequest,
  call: (order: OperatorRequest) => Promise<OperatorResponse>,
): Promise<OperatorRequest> {
  const options = { ...order.options };
  let words = order.command.join(" ");
  if (words === "approve") {
    const list = await call({ command: ["approvals", "list"], operator: order.operator });
    const proposals = list.ok ? (list.result as Proposal[]) : [];
    const proposal = proposals.find(({ proposal_id }) => proposal_id === options["id"]);
    if (proposal !== undefined) {
      console.error(`Approving ${visible(proposal.content)}`);
      if (!(await isConfirmed(options["yes"])))
        throw new UsageError("not approved: answer yes, or without a terminal pass --yes");
      options["sha256"] = createHash("sha256").update(proposal.content).digest("hex");
      words = (JSON.parse(proposal.content) as { command: string[] }).command.join(" ");
    } else options["sha256"] = "none";
    delete options["yes"];
  }
  if (SETS_PASSWORD.has(words)) options["password"] = randomBytes(18).toString("base64url");
  return { ...order, options };
}

/** Whether the operator has read what they sign. Without a terminal, `--yes` says so. */
async function isConfirmed(yes: string | undefined): Promise<boolean> {
  if (yes !== undefined) return true;
  if (!process.stdin.isTTY) return false;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const answer = await terminal.question("Approve it? Type yes: ");
  terminal.close();
  return answer.trim() === "yes";
}

/**
 * Adds the generated password to the result, because it is stored nowhere else. A proposal has set
 * none.
 */
function withShownPassword(
  { options }: OperatorRequest,
  response: OperatorResponse,
): OperatorResponse {
  const password = options?.["password"];
  const result: object = response.ok ? Object(response.result) : {};
  if (!response.ok || password === undefined || "proposal_id" in result) return response;
  return { ok: true, result: { ...result, password } };
}

/** `reconcile` returns null as the block of a chain that it could not read. */
function warningsOf(result: unknown): string[] {
  const block: unknown =
    typeof result === "object" && result !== null && "block" in result ? result.block : undefined;
  if (typeof block !== "object" || block === null) return [];
  return Object.entries(block).flatMap(([chain, at]) =>
    at === null ? [`${chain} could not be read, so its holdings were not compared`] : [],
  );
}

/**
 * `reconcile`, `restore`, `doctor`, `audit verify` and `journal verify` return `ok: false` if their
 * check failed.
 */
function reportsFailure(result: unknown): boolean {
  return typeof result === "object" && result !== null && "ok" in result && result.ok === false;
}
