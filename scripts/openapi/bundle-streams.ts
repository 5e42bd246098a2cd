/**
 * docs/asyncapi.json: docs/asyncapi.yaml with the records of docs/openapi.json that it refers to,
 * so that one file describes the streams.
 */
import type { JsonSchema } from "./examples.ts";
import { titleInline } from "./title-inline.ts";

const RECORDS = "./openapi.json#/components/schemas/";
const OWN = "#/components/schemas/";

type Schemas = Record<string, JsonSchema>;
export type Streams = {
  info: { version: string };
  components: { schemas: Schemas; messages: Record<string, { payload: JsonSchema }> };
};

export function bundleStreams(streams: Streams, records: Schemas, version: string): Streams {
  const schemas: Schemas = {};
  const queue = new Set<string>();
  const found = (name: string) => void queue.add(name);
  const bundled = rewritten(streams, { records: RECORDS, found });
  // The set grows while it is read, because a record refers to others.
  for (const name of queue) {
    const record = records[name];
    if (record === undefined) throw new Error(`docs/asyncapi.yaml refers to ${name}.`);
    if (streams.components.schemas[name] !== undefined)
      throw new Error(`docs/asyncapi.yaml and docs/openapi.json both have a schema ${name}.`);
    schemas[name] = rewritten(record, { records: OWN, found });
  }
  bundled.info.version = version;
  Object.assign(bundled.components.schemas, schemas);
  titleInline(bundled.components.schemas);
  return bundled;
}

/** A copy that refers to records in the bundle, each of which is reported to `found`. */
function rewritten<Part>(
  part: Part,
  { records, found }: { records: string; found: (name: string) => void },
): Part {
  return JSON.parse(JSON.stringify(part), (_key, value: unknown) => {
    if (!isReference(value)) return value;
    const { $ref, ...rest } = value;
    const name = $ref.startsWith(records) ? $ref.slice(records.length) : null;
    if (name !== null) found(name);
    const reference = { $ref: name === null ? $ref : OWN + name };
    // In the draft 07 of AsyncAPI, what is beside a reference is ignored.
    return Object.keys(rest).length === 0 ? reference : { ...rest, allOf: [reference] };
  });
}

function isReference(value: unknown): value is { $ref: string } {
  return typeof value === "object" && value !== null && "$ref" in value;
}
