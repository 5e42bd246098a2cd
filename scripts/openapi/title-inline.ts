/**
 * Titles for the schemas that stand within others, because generators of code name them by it:
 * `QuoteStatus` is the field `status` of `Quote`.
 */
import type { JsonSchema, Schemas } from "./examples.ts";
import { capital } from "./name-objects.ts";

type Titled = JsonSchema & { title?: string };

export function titleInline(schemas: Schemas): void {
  for (const [name, schema] of Object.entries(schemas)) titleParts(name, schema, schemas);
}

function titleParts(name: string, schema: JsonSchema, schemas: Schemas): void {
  for (const [field, part] of Object.entries(schema.properties ?? {}))
    titleOne(name + field.split("_").map(capital).join(""), part, schemas);
  if (schema.items !== undefined) titleOne(`${name}Item`, schema.items, schemas);
  for (const part of schema.anyOf ?? []) titleOne(`${name}Value`, part, schemas);
}

function titleOne(name: string, schema: Titled, schemas: Schemas): void {
  const shared = schema.allOf?.[0]?.$ref?.split("/").at(-1);
  if (schema.enum !== undefined || schema.properties !== undefined) {
    // Another schema may have the name.
    schema.title = name in schemas ? `${name}Value` : name;
  } else if (shared !== undefined) schema.title = shared;
  titleParts(name, schema, schemas);
}
