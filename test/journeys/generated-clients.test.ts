/**
 * Clients that are generated from docs/openapi.json in TypeScript, Python and Go. With each, a
 * program logs in and trades, and sends required fields only. The generators of Python and Go are
 * installed into a temporary folder, in the versions that test/generators pins.
 */
import { execFile, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { install } from "../support/node/install.ts";
import { openMarket, startTestStack, type TestStack } from "../support/node/stack.ts";

const run = promisify(execFile);
const DESCRIPTION = resolve("docs/openapi.json");
const WORK = resolve(".stack", `generated-${process.pid}`);
const GENERATORS = resolve("test/generators");
const TYPESCRIPT = ["test/generators/node_modules", "node_modules"]
  .map((folder) => resolve(folder, "openapi-typescript/bin/cli.js"))
  .find((file) => existsSync(file));

let stack: TestStack;
beforeAll(async () => {
  mkdirSync(WORK, { recursive: true });
  stack = await startTestStack();
});
afterAll(async () => {
  rmSync(WORK, { recursive: true, force: true });
  await stack?.stop();
});

const installed = (tool: string, ask: string) => spawnSync(tool, [ask]).status === 0;

/** Arguments of each program: two users with funds, and the token that they trade. */
async function argumentsOf(): Promise<string[]> {
  const { requester, maker, asset } = await openMarket(stack, 10_000_000n);
  const people = [requester.email, requester.password, maker.email, maker.password];
  return [stack.baseUrl, ...people, asset.asset_id];
}

const TRADED = { balance: "0x989680", price: 650_000, cost: "0x9eb10" };

/** Uses nothing of this repository but the generated types. */
const PROGRAM = `
import type { components, operations } from "./schema.ts";

type Operation = keyof operations;
type Json<Message> = Message extends { content: { "application/json": infer Body } } ? Body : never;
type Responses<Id extends Operation> = operations[Id]["responses"];
type Success<Id extends Operation> =
  Json<Responses<Id>[keyof Responses<Id> & (200 | 201 | 202)]>;
type Input<Id extends Operation> = operations[Id] extends { requestBody?: infer Message }
  ? Json<NonNullable<Message>> : never;
type Side = components["schemas"]["Side"];

const [baseUrl, requesterEmail, requesterPassword, makerEmail, makerPassword, asset_id] =
  process.argv.slice(2) as [string, string, string, string, string, string];

async function call<Id extends Operation>(
  [method, path, token]: [method: string, path: string, token?: string],
  body?: Input<Id>,
): Promise<Success<Id>> {
  const response = await fetch(baseUrl + path, {
    method,
    headers: {
      ...(token === undefined ? {} : { authorization: "Bearer " + token }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) {
    const problem = (await response.json()) as components["schemas"]["Problem"];
    throw new Error(problem.code + ": " + problem.detail);
  }
  return (await response.json()) as Success<Id>;
}

const login = (email: string, password: string) =>
  call<"login">(["POST", "/auth/login"], { email, password });
const taker = (await login(requesterEmail, requesterPassword)).access_token;
const maker = (await login(makerEmail, makerPassword)).access_token;
const { balance } = await call<"getUsdcBalance">(["GET", "/custody/get-usdc-balance", taker]);
const side: Side = "Bid";
const request = await call<"createRequest">(["POST", "/rfq/request", taker], {
  venue_id: "venue_one", asset_id, amount: "1000000", side,
});
const quote = await call<"createQuote">(["POST", "/rfq/quote", maker], {
  request_id: request.request_id, price: 650_000,
});
await call<"setProtection">(["POST", "/rfq/protection", maker], { window_secs: 60 });
const page = await call<"listQuotesOnRequest">(
  ["GET", "/rfq/quote?request_id=" + request.request_id, taker],
);
const best: components["schemas"]["Quote"] | undefined = page.items[0];
const match = await call<"acceptQuote">(["POST", "/rfq/accept", taker], {
  quote_id: best?.quote_id ?? quote.quote_id,
});
console.log(JSON.stringify({ balance, price: match.price, cost: match.usdc_amount }));
`;

it("the types of openapi-typescript trade from login to accept", { timeout: 120_000 }, async () => {
  const generator = TYPESCRIPT ?? expect.fail("npm install has not installed openapi-typescript");
  // In the folder of the output, because the generator would read redocly.yaml in ours.
  await run(process.execPath, [generator, DESCRIPTION, "-o", "schema.ts"], { cwd: WORK });
  writeFileSync(join(WORK, "program.ts"), PROGRAM);
  const config = {
    compilerOptions: {
      target: "ES2024",
      lib: ["ES2024"],
      module: "NodeNext",
      types: ["node"],
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      allowImportingTsExtensions: true,
      verbatimModuleSyntax: true,
      noEmit: true,
    },
    include: ["*.ts"],
  };
  writeFileSync(join(WORK, "package.json"), '{ "type": "module" }');
  writeFileSync(join(WORK, "tsconfig.json"), JSON.stringify(config));
  const compiled = await run(resolve("node_modules/.bin/tsc"), ["-p", WORK]).then(
    () => "",
    (error: Error & { stdout?: string }) => error.stdout ?? error.message,
  );
  expect(compiled).toBe("");

  const program = [join(WORK, "program.ts"), ...(await argumentsOf())];
  const { stdout } = await run(process.execPath, program);
  expect(JSON.parse(stdout)).toEqual(TRADED);
});

it(
  "the client of openapi-python-client trades from login to accept",
  {
    timeout: 300_000,
  },
  async ({ skip }) => {
    skip(!installed("python3", "--version"), "Python is not installed");
    const folder = join(WORK, "python");
    cpSync(join(GENERATORS, "python"), folder, { recursive: true });
    const bin = join(folder, "venv/bin");
    await run("python3", ["-m", "venv", join(folder, "venv")]);
    const requirements = ["install", "--quiet", "-r", "requirements.txt"];
    await install(skip, join(bin, "pip"), requirements, { cwd: folder });

    // The generator formats with ruff, which it looks for on the PATH.
    const env = { ...process.env, PATH: `${bin}${delimiter}${process.env["PATH"]}` };
    const target = ["--path", DESCRIPTION, "--output-path", "rfq", "--meta", "none"];
    const generate = ["generate", "--fail-on-warning", ...target];
    await run(join(bin, "openapi-python-client"), generate, { cwd: folder, env });

    const program = ["trade.py", ...(await argumentsOf())];
    const { stdout } = await run(join(bin, "python"), program, { cwd: folder });
    expect(JSON.parse(stdout)).toEqual({ ...TRADED, problem: "not_request_owner" });
  },
);

it(
  "the client of oapi-codegen trades from login to accept",
  {
    timeout: 300_000,
  },
  async ({ skip }) => {
    skip(!installed("go", "version"), "Go is not installed");
    const folder = join(WORK, "go");
    cpSync(join(GENERATORS, "go"), folder, { recursive: true });
    mkdirSync(join(folder, "rfq"));
    await install(skip, "go", ["mod", "download"], { cwd: folder });

    const output = ["-generate", "types,client", "-package", "rfq", "-o", "rfq/rfq.go"];
    await run("go", ["tool", "oapi-codegen", ...output, DESCRIPTION], { cwd: folder });
    await run("go", ["build", "-buildvcs=false", "-o", "trade", "."], { cwd: folder });

    const { stdout } = await run(join(folder, "trade"), await argumentsOf());
    expect(JSON.parse(stdout)).toEqual({ ...TRADED, problem: "not_request_owner" });
  },
);

it("spectral reports nothing", { timeout: 300_000 }, async ({ skip }) => {
  // Outside of the checkout, whose workspaces and settings npm would read.
  const folder = mkdtempSync(join(tmpdir(), "spectral-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "package.json"), "{}");
  const options = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder];
  await install(skip, "npm", [...options, "@stoplight/spectral-cli@6.16.3"], { cwd: folder });
  const spectral = join(folder, "node_modules/.bin/spectral");
  const files = [DESCRIPTION, resolve("docs/asyncapi.json")];
  const rules = ["--ruleset", resolve(".spectral.yaml"), "--fail-severity", "hint"];
  const { stdout } = await run(spectral, ["lint", ...rules, ...files]);
  expect(stdout).toContain("No results");
});
