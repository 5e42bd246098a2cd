/** docs/openapi.json and docs/asyncapi.yaml as validators, closed: a field that is not described is a fault. */
import { readFileSync } from "node:fs";
import { type Schema, Validator } from "@cfworker/json-schema";
import { parse } from "yaml";

type AsyncApi = {
  components: {
    messages: Record<string, { payload: { $ref?: string } }>;
    schemas: Record<string, Schema>;
  };
};

export type StreamDescription = {
  /** Every value of `type` that a server's message can have. */
  readonly types: readonly string[];
  /** What is wrong with it; empty when nothing is. */
  faultsOf(message: { type: string }): string[];
  /** Of a command. */
  faultsOfCommand(command: { op: string }): string[];
};

export function readStreamDescription(): StreamDescription {
  const description = parse(readFileSync("docs/asyncapi.yaml", "utf8")) as AsyncApi;
  const records = JSON.parse(readFileSync("docs/openapi.json", "utf8")) as {
    components: { schemas: Record<string, Schema> };
  };
  const defs = relinked({
    ...closed(records.components.schemas),
    ...description.components.schemas,
  });
  const byType = new Map<string, Validator>();
  const byOp = new Map<string, Validator>();
  for (const { payload } of Object.values(description.components.messages)) {
    const name = payload.$ref?.split("/").at(-1);
    if (name === undefined) continue;
    const { type, op } = defs[name]?.properties ?? {};
    const validator = new Validator({ $ref: `#/$defs/${name}`, $defs: defs }, "2020-12", false);
    for (const value of valuesOf(type)) byType.set(value, validator);
    for (const value of valuesOf(op)) byOp.set(value, validator);
  }
  return {
    types: [...byType.keys()],
    faultsOf: (message) => faults(byType.get(message.type), message),
    faultsOfCommand: (command) => faults(byOp.get(command.op), command),
  };
}

export type Answer = { method: string; path: string; status: number; type: string; body: unknown };
type Operations = Record<
  string,
  Record<string, { responses: Record<string, { content?: Record<string, { schema: Schema }> }> }>
>;

/** What is wrong with an answer by docs/openapi.json; empty when nothing is. */
export function readRestDescription(): (answer: Answer) => string[] {
  const { paths, components } = JSON.parse(readFileSync("docs/openapi.json", "utf8")) as {
    paths: Operations;
    components: { schemas: Record<string, Schema> };
  };
  const $defs = relinked(closed(components.schemas));
  return ({ method, path, status, type, body }) => {
    const schema = paths[path]?.[method.toLowerCase()]?.responses[status]?.content?.[type]?.schema;
    if (schema === undefined) return [`not described: ${method} ${path} ${status} ${type}`];
    const { answer = {} } = relinked({ answer: schema });
    return faults(new Validator({ ...answer, $defs }, "2020-12", false), body).map(
      (fault) => `${method} ${path} ${status}: ${fault}`,
    );
  };
}

function faults(validator: Validator | undefined, message: unknown): string[] {
  if (validator === undefined) return [`not described: ${JSON.stringify(message)}`];
  return validator
    .validate(message)
    .errors.map(({ instanceLocation, error }) => `${instanceLocation} ${error}`);
}

function valuesOf(schema: Schema | boolean | undefined): string[] {
  if (typeof schema !== "object") return [];
  return [...(schema.enum ?? []), ...(schema.const === undefined ? [] : [schema.const])].map(
    String,
  );
}

/** A problem has members by its code; a new key is the record and more. */
const OPEN: ReadonlySet<string> = new Set(["Problem", "ApiKey"]);

/** Readers must bear new fields; a test must not, or a field could be forgotten in the description. */
function closed(schemas: Record<string, Schema>): Record<string, Schema> {
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => [
      name,
      schema["type"] === "object" && !OPEN.has(name)
        ? { ...schema, additionalProperties: false }
        : schema,
    ]),
  );
}

function relinked(schemas: Record<string, Schema>): Record<string, Schema> {
  return JSON.parse(
    JSON.stringify(schemas).replaceAll(
      /"(\.\/openapi\.json)?#\/components\/schemas\//g,
      '"#/$defs/',
    ),
  );
}
