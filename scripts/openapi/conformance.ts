/**
 * docs/openapi.json and docs/asyncapi.yaml as validators. A field that they do not describe is an
 * error.
 */
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
  /** Every `type` of a message from the service. */
  readonly types: readonly string[];
  /** The errors of a message; empty if it fits. */
  errorsOf(message: { type: string }): string[];
  /** The errors of a command; empty if it fits. */
  errorsOfCommand(command: { op: string }): string[];
};

export function readStreamDescription(): StreamDescription {
  const description = parse(readFileSync("docs/asyncapi.yaml", "utf8")) as AsyncApi;
  const records = JSON.parse(readFileSync("docs/openapi.json", "utf8")) as {
    components: { schemas: Record<string, Schema> };
  };
  const defs = relinked(
    closed({ ...records.components.schemas, ...description.components.schemas }),
  );
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
    errorsOf: (message) => errors(byType.get(message.type), message),
    errorsOfCommand: (command) => errors(byOp.get(command.op), command),
  };
}

export type RestResponse = {
  method: string;
  path: string;
  status: number;
  type: string;
  body: unknown;
};
type Response = { $ref?: string; content?: Record<string, { schema: Schema }> };
type Operations = Record<string, Record<string, { responses: Record<string, Response> }>>;

/** Returns the errors of a response; empty if it fits docs/openapi.json. */
export function readRestDescription(): (response: RestResponse) => string[] {
  const { paths, components } = JSON.parse(readFileSync("docs/openapi.json", "utf8")) as {
    paths: Operations;
    components: { schemas: Record<string, Schema>; responses: Record<string, Response> };
  };
  const $defs = relinked(closed(components.schemas));
  const resolved = (response: Response | undefined) =>
    response?.$ref === undefined
      ? response
      : components.responses[response.$ref.split("/").at(-1) ?? ""];
  return ({ method, path, status, type, body }) => {
    const described = resolved(paths[path]?.[method.toLowerCase()]?.responses[status]);
    const schema = described?.content?.[type]?.schema;
    if (schema === undefined) return [`not described: ${method} ${path} ${status} ${type}`];
    const { response = {} } = relinked({ response: schema });
    return errors(new Validator({ ...response, $defs }, "2020-12", false), body).map(
      (error) => `${method} ${path} ${status}: ${error}`,
    );
  };
}

function errors(validator: Validator | undefined, message: unknown): string[] {
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

/** A new key has more members than `ApiKey`. */
const OPEN: ReadonlySet<string> = new Set(["ApiKey"]);

/** Clients ignore new fields. A test must not, or a field could be missing in the description. */
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
