/** The public documentation of the client is complete and its examples compile. */
import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, it } from "vitest";

const SOURCE = resolve("packages/client/src");
const WORK = resolve(".stack", `docstrings-${process.pid}`);
afterAll(() => rmSync(WORK, { recursive: true, force: true }));

type Symbol = { name: string; kind: "class" | "function" | "type" | "method"; doc: string };

const EXPORT = /^export (?:async )?(class|function|type) (\w+)/;
const METHOD =
  /^ {2}(?!constructor\b)(?:static )?(?:async )?\*?(?:get )?(\w+|\[Symbol\.asyncIterator\])\((?:.*(?:\{|,|\())?$/;

/** All exports of index.ts with their docstrings. Relies on the layout that oxfmt gives a file. */
function publicSymbols(): Symbol[] {
  const index = readFileSync(`${SOURCE}/index.ts`, "utf8");
  const exports = index.matchAll(/export (?:type )?(\*|\{[^}]*\}) from "\.\/([\w-]+\.ts)"/g);
  const webhooks = ["", "*", "verify-webhook.ts"];
  return [...exports, webhooks].flatMap(([, names = "", file = ""]) => {
    const wanted = new Set(names.match(/\w+/g)?.filter((word) => word !== "type"));
    return symbolsOf(readFileSync(`${SOURCE}/${file}`, "utf8")).filter(
      ({ owner }) => names === "*" || wanted.has(owner),
    );
  });
}

function symbolsOf(text: string): (Symbol & { owner: string })[] {
  const symbols: (Symbol & { owner: string })[] = [];
  const lines = text.split("\n");
  let owner: string | null = null;
  for (const [index, line] of lines.entries()) {
    const found = EXPORT.exec(line);
    if (found !== null) {
      const [, kind = "", name = ""] = found;
      owner = kind === "class" ? name : null;
      symbols.push({
        name,
        owner: name,
        kind: kind as Symbol["kind"],
        doc: docBefore(lines, index),
      });
    } else if (line === "}") owner = null;
    const method = owner === null ? null : METHOD.exec(line);
    if (owner !== null && method !== null)
      symbols.push({
        name: `${owner}.${method[1]}`,
        owner,
        kind: "method",
        doc: docBefore(lines, index),
      });
  }
  return symbols;
}

function docBefore(lines: readonly string[], index: number): string {
  if (lines[index - 1]?.trimEnd().endsWith("*/") !== true) return "";
  let first = index - 1;
  while (!lines[first]!.trimStart().startsWith("/**")) first--;
  // A docstring at the top of the file describes the file.
  return first === 0 && lines[index - 1] === "" ? "" : lines.slice(first, index).join("\n");
}

function examplesOf(doc: string): string[] {
  return [...doc.matchAll(/```ts\n([\s\S]*?)\n\s*\* ```/g)].map(([, code = ""]) =>
    code.replaceAll(/^\s*\* ?/gm, ""),
  );
}

const symbols = publicSymbols();

it("finds the public symbols", () => {
  const names = symbols.map(({ name }) => name);
  expect(names).toEqual(
    expect.arrayContaining([
      "Client",
      "Client.login",
      "Client.accountStream",
      "Rfq.accept",
      "RfqRecords.quotes",
      "Custody.withdrawal",
      "Auth.endSessions",
      "Pages.[Symbol.asyncIterator]",
      "Stream.since",
      "Stream.quote",
      "Live.get",
      "Problem",
      "NoAnswer",
      "NotSent",
      "sign",
      "WithdrawalTerms",
      "StreamMessageOf",
      "Quote",
    ]),
  );
  // Private and internal symbols are not public.
  expect(
    names.filter((name) => /#|constructor|Transport|Inbox|importSecret|retryDelay/.test(name)),
  ).toEqual([]);
  expect(symbols.filter(({ kind }) => kind === "method").length).toBeGreaterThanOrEqual(45);
});

it("every public symbol has a docstring", () => {
  expect(symbols.filter(({ doc }) => doc === "").map(({ name }) => name)).toEqual([]);
});

it("every public class, function and method has an example", () => {
  const bare = symbols.filter(({ kind, doc }) => kind !== "type" && examplesOf(doc).length === 0);
  expect(bare.map(({ name }) => name)).toEqual([]);
});

/** As seen from the folder of the compiled examples. */
const INDEX = "../../packages/client/src/index.ts";

/** Variables that examples may use. */
const GIVEN = `
declare const client: Client;
declare const stream: Stream;
declare const request: QuoteRequest;
declare const quote: Quote;
declare const quote_id: string;
declare const [secret, rawBody, headers]: [string, string, Headers];
`;

async function compile(code: string): Promise<string> {
  mkdirSync(WORK, { recursive: true });
  writeFileSync(`${WORK}/examples.ts`, code);
  writeFileSync(
    `${WORK}/tsconfig.json`,
    JSON.stringify({
      extends: "../../packages/client/tsconfig.json",
      compilerOptions: {
        noEmit: true,
        declaration: false,
        noUnusedLocals: false,
        rootDir: "../..",
      },
      include: ["examples.ts"],
    }),
  );
  const tsc = resolve("node_modules/.bin/tsc");
  return promisify(execFile)(tsc, ["-p", WORK, "--pretty", "false"]).then(
    () => "",
    (error: Error & { stdout?: string }) => error.stdout ?? error.message,
  );
}

function moduleOf(examples: readonly string[]): string {
  const index = readFileSync(`${SOURCE}/index.ts`, "utf8");
  const values = [
    "Client",
    "NoAnswer",
    "NotSent",
    "Problem",
    "Stream",
    "WrongTerms",
    "canonicalMessage",
    "decodeEvent",
    "formatUnits",
    "parseUnits",
    "price",
    "sign",
    "signedHeaders",
    "verifyLiability",
    "verifyReceipt",
  ];
  expect(values.filter((name) => !index.includes(name))).toEqual([]);
  return [
    `import { ${values.join(", ")}, type Quote, type QuoteRequest } from "${INDEX}";`,
    `import { verifyWebhook } from "${INDEX.replace("index", "verify-webhook")}";`,
    GIVEN,
    ...examples.map((code, place) => `export async function example${place}() {\n${code}\n}`),
  ].join("\n");
}

it("every example compiles", { timeout: 60_000 }, async () => {
  const examples = symbols.flatMap(({ name, doc }) =>
    examplesOf(doc).map((code) => `// ${name}\n${code}`),
  );
  expect(examples.length).toBeGreaterThanOrEqual(50);
  expect(await compile(moduleOf(examples))).toBe("");
});

it("every example of the README and of docs compiles", { timeout: 60_000 }, async () => {
  const docs = readdirSync("docs").filter((name) => name.endsWith(".md"));
  const pages = ["packages/client/README.md", ...docs.map((name) => `docs/${name}`)];
  const blocks = pages.flatMap((page) =>
    [...readFileSync(page, "utf8").matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code = ""]) =>
      code.replaceAll(/^import .* from "@rfq-custody\/client(?:\/webhooks)?";\n/gm, ""),
    ),
  );
  expect(blocks.length).toBeGreaterThanOrEqual(6);
  expect(await compile(moduleOf(blocks))).toBe("");
});

it("the compiler rejects a wrong example", { timeout: 60_000 }, async () => {
  expect(await compile(moduleOf(["await client.rfq.accept({ quote: quote_id });"]))).toContain(
    "TS2353",
  );
});

it(
  "the option webSocket accepts the classes of browsers and of ws",
  { timeout: 60_000 },
  async () => {
    const code = `
    declare class WsOfPackage {
      constructor(address: string | URL, options?: object);
      send(data: string | ArrayBufferLike, cb?: (error?: Error) => void): void;
      close(code?: number, data?: string): void;
      addEventListener<K extends keyof WsEvents>(
        type: K,
        listener: ((event: WsEvents[K]) => void) | { handleEvent(event: WsEvents[K]): void },
        options?: object,
      ): void;
    }
    type WsEvents = {
      open: Of<{}>;
      message: Of<{ data: string | Uint8Array[] }>;
      close: Of<{ code: number; reason: string; wasClean: boolean }>;
      error: Of<{ error: any; message: string }>;
    };
    type Of<Event> = Event & { type: string; target: WsOfPackage };
    new Client({ baseUrl: "http://127.0.0.1:8787", webSocket: WsOfPackage });
    new Client({ baseUrl: "http://127.0.0.1:8787", webSocket: WebSocket });`;
    expect(await compile(moduleOf([]) + code)).toBe("");
  },
);
