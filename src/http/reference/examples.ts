/** Examples of answers, bodies and parameters, composed from their schemas and the samples of single fields. */
import { SAMPLE } from "./samples.ts";

/** The part of JSON Schema that the description's schemas use. */
export type JsonSchema = {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  examples?: unknown[];
  default?: unknown;
  properties?: Record<string, JsonSchema>;
  items?: JsonSchema;
  allOf?: JsonSchema[];
  anyOf?: JsonSchema[];
  oneOf?: JsonSchema[];
};
export type Schemas = Readonly<Record<string, JsonSchema>>;

const SAMPLES: ReadonlyMap<string, unknown> = new Map(Object.entries(SAMPLE));

/** Undefined where nothing is known of the field: the check of the description (scripts/openapi.ts) names it. */
export function exampleOf(schema: JsonSchema, schemas: Schemas, name = ""): unknown {
  if (schema.$ref !== undefined)
    return exampleOf(schemas[schema.$ref.split("/").at(-1) ?? ""] ?? {}, schemas, name);
  if (schema.examples?.length) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.allOf !== undefined)
    return Object.assign({}, ...schema.allOf.map((part) => exampleOf(part, schemas, name)));
  // Some names mean different things in different places, e.g. `usdc` an address and a filter.
  const sample =
    schema.type === "boolean" && typeof SAMPLES.get(name) !== "boolean" ? true : SAMPLES.get(name);
  if (schema.enum !== undefined) return schema.enum.includes(sample) ? sample : schema.enum[0];
  if (sample !== undefined) return sample;
  if (schema.properties !== undefined) {
    return Object.fromEntries(
      Object.entries(schema.properties).map(([field, part]) => [
        field,
        exampleOf(part, schemas, field),
      ]),
    );
  }
  const choice = (schema.anyOf ?? schema.oneOf)?.[0];
  if (choice !== undefined) return exampleOf(choice, schemas, name);
  if (schema.items !== undefined) return [exampleOf(schema.items, schemas, name)];
  return schema.default;
}
