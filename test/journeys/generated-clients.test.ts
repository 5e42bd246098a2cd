/**
 * Clients that are generated from docs/openapi.json. The types of openapi-typescript are compiled
 * with a program that logs in and trades, which then runs. The generators of Python and Go run if
 * they are installed.
 */
import { execFile, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openMarket, startTestStack, type TestStack } from "../support/node/stack.ts";

const run = promisify(execFile);
const DESCRIPTION = resolve("docs/openapi.json");
const WORK = resolve(".stack", `generated-${process.pid}`);
const GENERATOR = ["test/generators/node_modules", "node_modules"]
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

const installed = (tool: string) => spawnSync(tool, ["--version"]).error === undefined;

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
  disclose_identity: false, expires_in_secs: 60,
});
const quote = await call<"createQuote">(["POST", "/rfq/quote", maker], {
  request_id: request.request_id, price: 650_000, expires_in_secs: 60,
});
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
  const generator = GENERATOR ?? expect.fail("npm install has not installed openapi-typescript");
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

  const { requester, maker, asset } = await openMarket(stack, 10_000_000n);
  const people = [requester.email, requester.password, maker.email, maker.password];
  const { stdout } = await run(process.execPath, [
    join(WORK, "program.ts"),
    stack.baseUrl,
    ...people,
    asset.asset_id,
  ]);
  expect(JSON.parse(stdout)).toEqual({ balance: "0x989680", price: 650_000, cost: "0x9eb10" });
});

it.skipIf(!installed("openapi-python-client"))(
  "openapi-python-client generates every operation (skipped where it is not installed)",
  { timeout: 120_000 },
  async () => {
    const output = join(WORK, "python");
    const target = ["--path", DESCRIPTION, "--output-path", output, "--meta", "none"];
    const { stdout, stderr } = await run("openapi-python-client", ["generate", ...target]);
    expect(stdout + stderr).not.toMatch(/Unable|Unsupported|Error/);
    const side = readFileSync(join(output, "models/side.py"), "utf8");
    expect(side).toContain("class Side(");
    expect(existsSync(join(output, "api/rfq/accept_quote.py"))).toBe(true);
    await run("python3", ["-m", "compileall", "-q", output]);
  },
);

it.skipIf(!installed("oapi-codegen"))(
  "oapi-codegen generates every operation (skipped where it is not installed)",
  { timeout: 120_000 },
  async () => {
    const { stdout } = await run(
      "oapi-codegen",
      ["-generate", "types,client", "-package", "rfq", DESCRIPTION],
      { maxBuffer: 2 ** 26 },
    );
    expect(stdout).toContain("func (c *Client) AcceptQuote(");
    expect(stdout).toContain("type Side string");
    expect(stdout).not.toContain("<nil>");
  },
);
