/** The client's types equal the published schemas, which are generated from those of the routes. */
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { promisify } from "node:util";
import type { Schema } from "@cfworker/json-schema";
import { afterAll, expect, it } from "vitest";
import { parse } from "yaml";
import { problemExamples } from "../../scripts/openapi/problem-examples.ts";
import { AMOUNT_FIELDS } from "../../packages/client/src/wire.ts";
import { observeCalls, readDescription, routesOf } from "../support/node/client-calls.ts";
import { isAmount, typeOf } from "../support/node/schema-types.ts";

const WORK = resolve(".stack", `wire-types-${process.pid}`);
afterAll(() => rmSync(WORK, { recursive: true, force: true }));

const description = readDescription();
const routes = routesOf(description);
const streams = parse(readFileSync("docs/asyncapi.yaml", "utf8")) as {
  components: { schemas: Record<string, Schema> };
};
const schemas = { ...description.components.schemas, ...streams.components.schemas };

function typeText(schema: Schema): string {
  return typeOf(schema, (ref) => {
    const name = ref.split("/").at(-1) ?? "";
    // A problem has further members, so the client does not list them all.
    return name === "Problem" ? "Flat<ProblemBody>" : (schemas[name] ?? expect.fail(ref));
  });
}

/** The schema that a property has or refers to, or those of which its value is one. */
function schemasIn(schema: Schema): Schema[] {
  if (schema.anyOf !== undefined) return (schema.anyOf as Schema[]).flatMap(schemasIn);
  const name = schema.$ref?.split("/").at(-1);
  return [name === undefined ? schema : (schemas[name] ?? {})];
}

/** The described properties are objects, never the schemas `true` and `false`. */
const propertiesOf = (schema: Schema) => (schema.properties ?? {}) as Record<string, Schema>;

/** `Verdict` is the text "same", or names the keys that differ. */
const PRELUDE = `
import type {
  Client, Page, Pages, ProblemBody, ProblemMembers, StreamMessage, StreamMessageOf,
} from "../../packages/client/src/index.ts";
type Result<Method> = Method extends (...args: never[]) => infer Returned
  ? Returned extends Pages<infer Item> ? Page<Item> : Awaited<Returned>
  : never;
/** With intersections of objects merged into one. */
type Flat<T> = T extends readonly (infer Item)[] ? Flat<Item>[]
  : T extends object ? { [Key in keyof T]: Flat<T[Key]> } : T;
type Same<A, B> =
  (<T>() => T extends A ? 1 : 2) extends (<T>() => T extends B ? 1 : 2) ? true : false;
type Keys<What extends string, A, B> = Same<A, B> extends true ? "same" : \`\${What} differs\`;
type At<T, Key> = Key extends keyof T ? Pick<T, Key> : "absent";
type Differing<A, B> = {
  [Key in keyof A | keyof B]: Same<At<A, Key>, At<B, Key>> extends true ? never : Key;
}[keyof A | keyof B];
type Verdict<What extends string, A, B> =
  Same<A, B> extends true ? "same" : \`\${What} differs: \${Differing<A, B> & string}\`;
/** Methods may drop the response, or return the list in it. */
type Check<What extends string, Returned, Described> =
  [Returned] extends [void] ? "same"
  : Returned extends readonly unknown[]
    ? Verdict<What, { list: Flat<Returned> }, { list: Flat<Described[keyof Described]> }>
  : Verdict<What, Flat<Returned>, Flat<Described>>;
`;

/** The errors of the compiler for `lines`, each of which is a type that must be "same". */
async function compare(lines: readonly string[]): Promise<string[]> {
  mkdirSync(WORK, { recursive: true });
  const checks = lines.map((line, index) => `export const check${index}: ${line} = "same";`);
  writeFileSync(`${WORK}/types.ts`, [PRELUDE, ...checks].join("\n"));
  const config = {
    extends: "../../packages/client/tsconfig.json",
    compilerOptions: { noEmit: true, declaration: false, noUnusedLocals: false, rootDir: "../.." },
    include: ["types.ts"],
  };
  writeFileSync(`${WORK}/tsconfig.json`, JSON.stringify(config));
  const tsc = resolve("node_modules/.bin/tsc");
  const output = await promisify(execFile)(tsc, ["-p", WORK, "--pretty", "false"]).then(
    () => "",
    (error: Error & { stdout?: string }) => error.stdout ?? error.message,
  );
  return output.split("\n").filter((line) => line !== "");
}

/** `Client["rfq"]["accept"]` of `rfq.accept`. */
const typeOfMethod = (method: string) =>
  `Client${method
    .split(".")
    .map((name) => `["${name}"]`)
    .join("")}`;

it("every method returns the type of its route", { timeout: 60_000 }, async () => {
  // Statements and receipts are texts, and the description is of the JSON form. Account events are
  // stream messages, which the next test compares.
  const other = /^custody\.statement$|Receipt$|^accountEvents$/;
  const calls = (await observeCalls(routes)).filter(
    ({ method, stream }) => !stream && !other.test(method),
  );
  const lines = calls.flatMap(({ method, route: name }) => {
    const response = routes.find((route) => route.name === name)?.response;
    if (response === undefined || response === null) return [];
    return [`Check<"${method}", Result<${typeOfMethod(method)}>, ${typeText(response.schema)}>`];
  });
  expect(lines.length).toBeGreaterThanOrEqual(30);
  expect(await compare(lines)).toEqual([]);
});

it("every stream message has the described type", { timeout: 60_000 }, async () => {
  const described = new Map<string, string>();
  for (const schema of Object.values(streams.components.schemas)) {
    const { type, stream } = propertiesOf(schema);
    if (type === undefined || stream === undefined) continue;
    for (const value of [...(type.enum ?? []), type.const].filter((name) => name !== undefined)) {
      const one = { ...schema, properties: { ...schema.properties, type: { const: value } } };
      described.set(String(value), typeText(one));
    }
  }
  const names = [...described.keys()].map((name) => JSON.stringify(name)).join(" | ");
  const lines = [...described].map(
    ([name, type]) => `Check<"${name}", StreamMessageOf<"${name}">, ${type}>`,
  );
  lines.push(`Check<"types", { type: StreamMessage["type"] }, { type: ${names} }>`);
  expect(lines.length).toBeGreaterThanOrEqual(18);
  expect(await compare(lines)).toEqual([]);
});

it("the comparison names a key that differs", { timeout: 60_000 }, async () => {
  const lines = [
    `Check<"extra", Result<Client["rfq"]["cancelQuotes"]>, { cancelled: number; at: string }>`,
    `Check<"kind", Result<Client["rfq"]["cancelQuotes"]>, { cancelled: string }>`,
    `Check<"optional", Result<Client["rfq"]["cancelQuotes"]>, { cancelled?: number }>`,
  ];
  expect(await compare(lines)).toEqual([
    expect.stringContaining('"extra differs: at"'),
    expect.stringContaining('"kind differs: cancelled"'),
    expect.stringContaining('"optional differs: cancelled"'),
  ]);
});

it("types the members of problems by code as the service sends them", async () => {
  const common = ["type", "title", "status", "code", "detail", "request_id", "errors"];
  const examples = Object.entries(problemExamples()).flatMap(([code, { value }]) => {
    const members = Object.entries(value as object).filter(([name]) => !common.includes(name));
    return members.length === 0 ? [] : [{ code, members: Object.fromEntries(members) }];
  });
  const codes = examples.map(({ code }) => JSON.stringify(code)).join(" | ");
  const fits = examples.map(
    ({ code, members }) =>
      `${JSON.stringify(members)} extends ProblemMembers["${code}"] ? Keys<"${code}", ` +
      `keyof ProblemMembers["${code}"], ${Object.keys(members)
        .map((name) => `"${name}"`)
        .join(" | ")}> ` +
      `: "${code} differs"`,
  );
  const lines = [`Keys<"codes", keyof ProblemMembers, ${codes}>`, ...fits];
  expect(await compare(lines)).toEqual([]);
});

it("decodes exactly the described amounts as bigint", () => {
  const amounts = new Set<string>();
  const addAmounts = (record: Schema): void => {
    for (const [name, schema] of Object.entries(propertiesOf(record)))
      if (schemasIn(schema).some(isAmount)) amounts.add(name);
      else addAmounts(schema);
  };
  for (const record of Object.values(description.components.schemas)) addAmounts(record);
  expect([...AMOUNT_FIELDS].toSorted()).toEqual([...amounts].toSorted());
});
