/** Says the defaults of bodies in words: generators make a field with `default` a required one. */
import type { Operation } from "./describe.ts";
import { type JsonSchema, reached, type Schemas } from "./examples.ts";

export function sayDefaults(operations: readonly Operation[], schemas: Schemas): void {
  const bodies = operations
    .flatMap(({ requestBody }) => Object.values(requestBody?.content ?? {}))
    .flatMap(({ schema = {} }) => [
      schema,
      ...reached(schema, schemas).map((name) => schemas[name]),
    ]);
  const fields = bodies.flatMap((body) => Object.values(body?.properties ?? {}));
  for (const field of fields) {
    if (field.default === undefined) continue;
    field.description = withDefault(field);
    delete field.default;
  }
}

/** The description of a field with its default. */
export function withDefault({ description = "", default: value }: JsonSchema): string {
  if (value === undefined || /\bDefault: /.test(description)) return description;
  return `${description.replace(/\.$/, "")}. Default: ${JSON.stringify(value)}`;
}
