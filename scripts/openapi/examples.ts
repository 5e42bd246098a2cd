/**
 * Makes examples of responses, bodies and parameters from their schemas and from samples of fields.
 */
import { SAMPLE } from "./samples.ts";

/** The part of JSON Schema that the description's schemas use. */
export type JsonSchema = {
  $ref?: string;
  type?: string | string[];
  description?: string;
  pattern?: string;
  format?: string;
  additionalProperties?: JsonSchema;
  minimum?: number;
  maximum?: number;
  enum?: unknown[];
  const?: unknown;
  examples?: unknown[];
  default?: unknown;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  items?: JsonSchema;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  allOf?: JsonSchema[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
};
export type Schemas = Readonly<Record<string, JsonSchema>>;

const SAMPLES: ReadonlyMap<string, unknown> = new Map(Object.entries(SAMPLE));

/** Optional fields that an example leaves out, because they do not go with its other fields. */
const LEFT_OUT: ReadonlySet<string> = new Set([
  "usdc_amount",
  "best_prices",
  "replaces",
  "request_approval",
  "only_listed",
  "addresses",
  "fees_included",
  "match",
]);

/** The names of all schemas that a schema refers to. */
export function reached(schema: JsonSchema, schemas: Schemas, found = new Set<string>()): string[] {
  for (const [, name = ""] of JSON.stringify(schema).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
    if (found.has(name)) continue;
    found.add(name);
    reached(schemas[name] ?? {}, schemas, found);
  }
  return [...found];
}

/** The fields of one member of a `oneOf` beside properties: required ones, and optional ones. */
export function fieldsOfChoice({ required = [], properties = {} }: JsonSchema): string[] {
  return [...required, ...Object.keys(properties)];
}

/** Undefined if no sample fits. scripts/openapi.ts then reports the field as having no example. */
export function exampleOf(schema: JsonSchema, schemas: Schemas, name = ""): unknown {
  if (schema.$ref !== undefined)
    return exampleOf(schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {}, schemas, name);
  if (schema.examples?.length) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.allOf !== undefined)
    return Object.assign({}, ...schema.allOf.map((part) => exampleOf(part, schemas, name)));
  // A name can have several meanings. For example, `usdc` is an address and a boolean filter.
  const known = SAMPLES.get(name);
  const sample =
    schema.type === "boolean" && typeof known !== "boolean"
      ? true
      : schema.properties !== undefined && typeof known === "string"
        ? undefined
        : known;
  if (schema.enum !== undefined) return schema.enum.includes(sample) ? sample : schema.enum[0];
  if (sample !== undefined) return sample;
  if (schema.properties !== undefined) {
    const otherChoices = schema.oneOf?.slice(1).flatMap(fieldsOfChoice) ?? [];
    return Object.fromEntries(
      Object.entries(schema.properties)
        .filter(([field]) => !otherChoices.includes(field))
        .filter(([field]) => schema.required?.includes(field) || !LEFT_OUT.has(field))
        .map(([field, part]) => [field, exampleOf(part, schemas, field)]),
    );
  }
  const choice = (schema.anyOf ?? schema.oneOf)?.[0];
  if (choice !== undefined) return exampleOf(choice, schemas, name);
  if (schema.items !== undefined) return [exampleOf(schema.items, schemas, name)];
  return schema.default;
}
