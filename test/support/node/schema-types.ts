/** JSON schemas as TypeScript types of decoded values: amounts are `bigint`. */
import type { Schema } from "@cfworker/json-schema";

/** The patterns of amounts in the service's schemas. No other field has one of them. */
const AMOUNT_PATTERNS = new Set(["^0x(0|[1-9a-f][0-9a-f]{0,63})$", "^-?\\d+$", "^\\d+$"]);

export function isAmount({ type, pattern }: Schema): boolean {
  return [type].flat().includes("string") && pattern !== undefined && AMOUNT_PATTERNS.has(pattern);
}

/** The text of the type; `resolve` finds the schema of a `$ref`, or the name of its type. */
export function typeOf(schema: Schema, resolve: (ref: string) => Schema | string): string {
  const nested = (it: unknown) => typeOf(it as Schema, resolve);
  if (schema.$ref !== undefined) {
    const found = resolve(schema.$ref);
    return typeof found === "string" ? found : nested(found);
  }
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined)
    return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.anyOf !== undefined) return schema.anyOf.map(nested).join(" | ");
  if (schema.allOf !== undefined) return schema.allOf.map(nested).join(" & ");
  const amount = isAmount(schema);
  const types: readonly unknown[] = Array.isArray(schema.type) ? schema.type : [schema.type];
  return types
    .map((type) => (amount && type === "string" ? "bigint" : simpleTypeOf(type, schema, nested)))
    .join(" | ");
}

function simpleTypeOf(type: unknown, schema: Schema, nested: (it: unknown) => string): string {
  switch (type) {
    case "string":
    case "boolean":
    case "null":
      return type;
    case "integer":
    case "number":
      return "number";
    case "array":
      return `(${nested(schema.items)})[]`;
    case "object":
      return objectTypeOf(schema, nested);
    default:
      throw new Error(`no type for this schema: ${JSON.stringify(schema)}`);
  }
}

function objectTypeOf(schema: Schema, nested: (it: unknown) => string): string {
  if (schema.properties === undefined)
    return `Record<string, ${nested(schema.additionalProperties)}>`;
  const required = new Set(schema.required);
  const members = Object.entries(schema.properties).map(
    ([name, it]) => `${JSON.stringify(name)}${required.has(name) ? "" : "?"}: ${nested(it)}`,
  );
  return `{ ${members.join("; ")} }`;
}
