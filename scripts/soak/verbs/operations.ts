/** The operations and socket commands of the published descriptions, with the fields of each. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { JsonSchema } from "../../openapi/examples.ts";
import { ROOT } from "../../stack/bundle.ts";

export type Field = {
  readonly name: string;
  readonly in: "query" | "header" | "body";
  readonly required: boolean;
  readonly schema: JsonSchema;
};

export type Operation = {
  /** `POST /rfq/quote`. */
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly credential: "public" | "any" | "session" | "api_key";
  readonly hasBody: boolean;
  readonly isStream: boolean;
  readonly fields: readonly Field[];
};

/** A command of the streams: its `op`, and its fields but `id` and `op`. */
export type SocketCommand = { readonly op: string; readonly fields: readonly Field[] };

type Parameter = { name: string; in: "query" | "header"; required?: boolean; schema: JsonSchema };
type Described = {
  tags: readonly string[];
  "x-credential": Operation["credential"];
  "x-stream"?: boolean;
  parameters?: readonly Parameter[];
  requestBody?: { content: { "application/json": { schema: JsonSchema } } };
};
type OpenApi = {
  paths: Record<string, Record<string, Described>>;
  components: { schemas: Record<string, JsonSchema> };
};

/** Every operation of docs/openapi.json. */
export function readOperations(): Operation[] {
  const { paths, components } = readOpenApi();
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => {
      const body = described.requestBody?.content["application/json"].schema;
      const inUrl = (described.parameters ?? []).map(
        ({ name, in: where, required = false, schema }) => ({
          name,
          in: where,
          required,
          schema: resolved(schema, components.schemas),
        }),
      );
      return {
        name: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path,
        credential: described["x-credential"],
        hasBody: body !== undefined,
        isStream: described["x-stream"] === true,
        fields: [...inUrl, ...fieldsOf(resolved(body ?? {}, components.schemas))],
      };
    }),
  );
}

/** Every command of docs/asyncapi.yaml. */
export function readSocketCommands(): SocketCommand[] {
  // Safe cast: the file is the project's own, and redocly checks it.
  const { components } = parse(readFileSync(join(ROOT, "docs", "asyncapi.yaml"), "utf8")) as {
    components: { schemas: Record<string, JsonSchema> };
  };
  // Some refer to those of docs/openapi.json.
  const schemas = { ...readOpenApi().components.schemas, ...components.schemas };
  return Object.values(components.schemas).flatMap(({ properties, ...schema }) => {
    const op = properties?.["op"]?.const;
    if (typeof op !== "string" || properties === undefined) return [];
    const { id: _id, op: _op, ...others } = properties;
    const fields = fieldsOf(resolved({ ...schema, properties: others }, schemas));
    return [{ op, fields }];
  });
}

function readOpenApi(): OpenApi {
  // Safe cast: the file is generated from the routes, and redocly checks it.
  return JSON.parse(readFileSync(join(ROOT, "docs", "openapi.json"), "utf8")) as OpenApi;
}

/** The fields of an object in a body. */
export function fieldsOf({ properties = {}, required = [] }: JsonSchema): Field[] {
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: "body",
    required: required.includes(name),
    schema,
  }));
}

/** Without references, which are not recursive in requests. It takes variants together. */
function resolved(schema: JsonSchema, schemas: Readonly<Record<string, JsonSchema>>): JsonSchema {
  const object = schema.anyOf?.find(({ $ref }) => $ref !== undefined);
  if (object !== undefined) {
    const { type, ...rules } = resolved(object, schemas);
    return { ...rules, type: [...[type ?? []].flat(), "null"] };
  }
  const { $ref, ...own } = schema;
  const named = $ref === undefined ? undefined : schemas[$ref.split("/").at(-1) ?? ""];
  const whole: JsonSchema = { ...(named === undefined ? {} : resolved(named, schemas)), ...own };
  const { items, oneOf } = whole;
  const variants = oneOf?.map((variant) => resolved(variant, schemas));
  const properties = variants
    ? Object.assign({}, ...variants.map((variant) => variant.properties))
    : whole.properties;
  const [first, ...others] = variants ?? [];
  const required = first?.required?.filter((name) =>
    others.every((other) => other.required?.includes(name)),
  );
  return {
    ...whole,
    ...(required === undefined ? {} : { required }),
    ...(items === undefined ? {} : { items: resolved(items, schemas) }),
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries<JsonSchema>(properties).map(([name, each]) => [
              name,
              resolved(each, schemas),
            ]),
          ),
        }),
  };
}
