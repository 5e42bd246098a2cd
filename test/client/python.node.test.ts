/** The Python client: its operations are those of the TypeScript client, and it works alone. */
import { execFile } from "node:child_process";
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";
import { parse } from "yaml";
import { bundleStreams, type Streams } from "../../scripts/openapi/bundle-streams.ts";
import type { OpenApi } from "../../scripts/openapi/describe.ts";
import { pythonModels } from "../../scripts/openapi/python-models.ts";
import { pythonOperations } from "../../scripts/openapi/python-operations.ts";
import { observeCalls, readDescription, routesOf } from "../support/node/client-calls.ts";
import { PACKAGE, pythonWithClient } from "../support/node/python.ts";

const run = promisify(execFile);
const WORK = resolve(".stack", `python-${process.pid}`);
afterAll(() => rmSync(WORK, { recursive: true, force: true }));

const GROUPS: Readonly<Record<string, string>> = {
  ServiceCalls: "",
  AuthCalls: "auth.",
  CustodyCalls: "custody.",
  RfqCalls: "rfq.",
};
/** Live maps and streams have classes of their own. */
const WITHOUT_CALL = new Set(["balances", "orders"]);

/** `POST /rfq/accept rfq.accept`, of every method of operations.py. */
function pythonMethods(): string[] {
  const text = readFileSync(join(PACKAGE, "src/rfq_custody/operations.py"), "utf8");
  return text.split(/^class /m).flatMap((part) => {
    const group = GROUPS[/^\w+/.exec(part)?.[0] ?? ""];
    if (group === undefined) return [];
    const methods = part.matchAll(
      /def (\w+)\((?:(?! {4}(?:async )?def ).)*?Call\("(\w+)", ([^,)]+)/gs,
    );
    return [...methods].flatMap(([, name = "", method = "", target = ""]) => {
      const paths = target.startsWith('"')
        ? [target.slice(1, -1)]
        : ["/auth/ws-ticket", "/auth/ws-ticket/signed"];
      return paths.map((path) => `${method} ${path} ${group}${name}`);
    });
  });
}

it("has the operations of the TypeScript client, with its names in snake case", async () => {
  const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const calls = await observeCalls(routesOf(readDescription()));
  const expected = calls
    .filter(({ stream, method }) => !stream && !WITHOUT_CALL.has(method))
    .map(({ route, method }) => `${route} ${snake(method)}`);
  expect(expected.length).toBeGreaterThan(55);
  expect(pythonMethods().toSorted()).toEqual(expected.toSorted());
});

it("waits with asyncio.timeout, because wait_for of Python 3.11 may lose a cancellation", () => {
  const files = globSync(join(PACKAGE, "src/**/*.py"));
  expect(files.filter((file) => readFileSync(file, "utf8").includes("wait_for("))).toEqual([]);
});

it("passes its own tests", async ({ skip }) => {
  const { python, env } = await pythonWithClient(skip);
  const discover = ["-m", "unittest", "discover", "-s", "tests"];
  const { stderr } = await run(python, discover, { cwd: PACKAGE, env });
  expect(stderr).toMatch(/Ran \d\d tests[^]*OK/);
});

const NEW_FIELD = `
import asyncio, json, httpx2
from rfq_custody import Auth, Client
from rfq_custody._wire import decode
from rfq_custody.models import RequestClosed

def serve(request):
    sent = json.loads(request.content)
    return httpx2.Response(200, json=MATCH | {"newer": sent["newer"]})

async def main():
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(serve))
    client = Client("https://rfq.test", Auth("k", "s"), http=http)
    match = await client.rfq.accept(quote_id="q", newer=2**60)
    data = {"request_id": "r", "reason": "matched", "newer": "0x10"}
    raw = {"type": "request.closed", "stream": "s", "seq": 1, "at": "2026-11-20T10:00:00Z"}
    event = decode(RequestClosed, raw | {"data": data})
    print(match.newer, event.data.newer)

asyncio.run(main())
`;

it("knows a new field of a body, a record and an event without a written line", async ({
  skip,
}) => {
  const { python, env } = await pythonWithClient(skip);
  const document = JSON.parse(readFileSync("docs/openapi.json", "utf8")) as OpenApi;
  const schemas = document.components?.schemas ?? {};
  const source = parse(readFileSync("docs/asyncapi.yaml", "utf8")) as Streams;
  const amount = { $ref: "#/components/schemas/Amount" };
  const inBody = { type: "string", pattern: "^(0*[1-9][0-9]{0,76})$" };
  Object.assign(schemas["AcceptQuoteBodyByQuoteId"]?.properties ?? {}, { newer: inBody });
  Object.assign(schemas["Match"]?.properties ?? {}, { newer: amount });
  const closed = source.components.schemas["RequestClosedData"]?.properties ?? {};
  closed["newer"] = { $ref: "./openapi.json#/components/schemas/Amount" };
  mkdirSync(WORK, { recursive: true });
  cpSync(join(PACKAGE, "src"), WORK, { recursive: true });
  const streams = bundleStreams(source, schemas, "0.0.0");
  writeFileSync(join(WORK, "rfq_custody/models.py"), pythonModels(document, streams));
  writeFileSync(join(WORK, "rfq_custody/operations.py"), pythonOperations(document));
  const success = document.paths["/rfq/accept"]?.["post"]?.responses["200"];
  const example = JSON.stringify(success?.content?.["application/json"]?.example);
  writeFileSync(join(WORK, "new_field.py"), `null = None\nMATCH = ${example}\n${NEW_FIELD}`);
  const { stdout } = await run(python, ["new_field.py"], {
    cwd: WORK,
    env: { ...env, PYTHONPATH: WORK },
  });
  expect(stdout).toBe("1152921504606846976 16\n");
});
