/** Reads target, body and fields of a request. One response reports all field errors together. */
import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { QueryText } from "./fields.ts";
import { type FieldError, MAX_FIELD_ERRORS, problem, Problem } from "../platform/problem.ts";
import { MAX_MEMBERS, parseJsonObject, shortName, shortPath } from "./json.ts";

export const BODY_LIMIT_BYTES = 64 * 1024;

/**
 * The request target as the Worker received it. The signature covers exactly these characters.
 * `pathname + search` would drop an empty query (`?`), and Hono decodes the path.
 */
export function rawTarget(url: string): string {
  const slash = url.indexOf("/", url.indexOf("://") + 3);
  return slash === -1 ? "/" : url.slice(slash);
}

const NO_BYTES = new Uint8Array();

/** The exact bytes of the body. Content-Length may be absent or wrong, so bytes are counted. */
export async function readBody(request: Request): Promise<Uint8Array> {
  const { body } = request;
  if (body === null) return NO_BYTES;
  const header = request.headers.get("content-length");
  const stated = Number(header ?? "0");
  if (stated > BODY_LIMIT_BYTES) throw bodyTooLarge();
  if (header === null || !/^\d+$/.test(header)) return readRest(body, []);
  // One read, of up to a byte more than stated, takes a third of the time of reading chunks.
  const reader = body.getReader({ mode: "byob" });
  const { value: first = NO_BYTES } = await reader.readAtLeast(
    stated + 1,
    new Uint8Array(stated + 1),
  );
  reader.releaseLock();
  if (first.byteLength > BODY_LIMIT_BYTES) throw bodyTooLarge();
  return first.byteLength <= stated ? first : readRest(body, [first]);
}

async function readRest(body: ReadableStream, chunks: Uint8Array[]): Promise<Uint8Array> {
  let size = chunks.reduce((sum, chunk) => sum + chunk.byteLength, 0);
  const reader = body.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    size += read.value.byteLength;
    if (size > BODY_LIMIT_BYTES) {
      await reader.cancel();
      throw bodyTooLarge();
    }
    chunks.push(read.value);
  }
  return Buffer.concat(chunks);
}

function bodyTooLarge(): Problem {
  return problem("body_too_large", `The body exceeds the limit of ${BODY_LIMIT_BYTES} bytes.`);
}

/** Checks the type and encoding of a body. A request without a body does not need them. */
export function checkContentType({ headers }: Request, body: Uint8Array): void {
  if (body.byteLength === 0) return;
  const encoding = headers.get("content-encoding") ?? "identity";
  if (!/^(identity)?$/i.test(encoding.trim()))
    throw problem("content_type_unsupported", "Send the body without content-encoding.");
  const type = headers.get("content-type") ?? "";
  if (/^application\/json\s*(;\s*(charset="?utf-?8"?\s*;?\s*)?)?$/i.test(type.trim())) return;
  throw problem("content_type_unsupported", "A body requires content-type: application/json.");
}

/** Fields by name, before validation. */
export type RawFields = Record<string, unknown>;
/** The place of each field: `query`, `body`, or a function of the field's name. */
export type Where = string | ((name: string) => string);

export function queryFields(url: string, errors: FieldError[]): RawFields {
  const target = rawTarget(url);
  const mark = target.indexOf("?");
  const given: RawFields = Object.create(null);
  if (mark === -1) return given;
  // Include the `?`, because URLSearchParams drops one. Otherwise it would drop the second of `??`.
  const parameters = new URLSearchParams(target.slice(mark));
  if (parameters.size > MAX_MEMBERS) {
    errors.push({ path: "query", message: `must not have more than ${MAX_MEMBERS} parameters` });
    return given;
  }
  for (const [name, value] of parameters) {
    const path = `query.${shortName(name)}`;
    if (Object.hasOwn(given, name)) errors.push({ path, message: "duplicate parameter" });
    else if (!value.isWellFormed() || value.includes("\u0000"))
      errors.push({ path, message: "must be text without null characters" });
    given[name] = new QueryText(value);
  }
  return given;
}

export function bodyFields(body: Uint8Array, errors: FieldError[]): RawFields | undefined {
  try {
    return parseJsonObject(body, errors);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    errors.push(...(error.data.errors ?? []));
    return undefined;
  }
}

/** Validates `given` and adds its errors to `errors`. */
export function validate<Schema extends z.ZodType>(
  schema: Schema,
  given: RawFields,
  where: Where,
  errors: FieldError[],
): z.output<Schema> | undefined {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  // Report a rule of a list's items once, although several items may break it.
  const seen = new Set(errors.map(textOf));
  for (const error of result.error.issues.flatMap((issue) => toFieldErrors(issue, given, where))) {
    if (errors.length >= MAX_FIELD_ERRORS) return undefined;
    if (!seen.has(textOf(error))) errors.push(error);
    seen.add(textOf(error));
  }
  return undefined;
}

function textOf({ path, message }: FieldError): string {
  return `${path}\n${message}`;
}

function toFieldErrors(issue: z.core.$ZodIssue, given: RawFields, where: Where): FieldError[] {
  const name = issue.path[0];
  const place = (field: PropertyKey | undefined) =>
    typeof where === "string" ? where : where(String(field ?? ""));
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => {
      const source = place(name ?? key);
      return {
        path: shortPath([source, ...issue.path, shortName(key)].join(".")),
        message: source === "query" ? "unknown parameter" : "unknown field",
      };
    });
  }
  // An absent field is reported as required, except by a rule over several fields, which has its
  // own message. Only the messages of field types begin with "must be".
  const typed =
    issue.code === "invalid_type" ||
    (issue.code === "custom" && issue.message.startsWith("must be"));
  const missing = typed && issue.path.length === 1 && !Object.hasOwn(given, String(name));
  return [
    {
      path: shortPath([place(name), ...issue.path].map(String).join(".")),
      message: missing ? "is required" : issue.message,
    },
  ];
}

/**
 * Merges the query and the body of a DELETE. A field in both must have the same value by its
 * schema, because spellings may differ. The caller validates the body's value, which is kept.
 */
export function mergeFields(
  schema: z.ZodObject,
  query: RawFields,
  body: RawFields,
  errors: FieldError[],
): RawFields {
  for (const [name, type] of Object.entries(schema.shape)) {
    if (!Object.hasOwn(query, name) || !Object.hasOwn(body, name)) continue;
    const alone = z.object({ [name]: type });
    const inQuery = validate(alone, { [name]: query[name] }, "query", errors);
    const inBody = validate(alone, { [name]: body[name] }, "body", []);
    if (inQuery !== undefined && inBody !== undefined && !isDeepStrictEqual(inQuery, inBody))
      errors.push({ path: `body.${name}`, message: "must equal the query parameter" });
  }
  return Object.assign(Object.create(null), query, body);
}

/** Where a field of a DELETE is. A missing field is reported in the place of the other fields. */
export function placeOf(name: string, query: RawFields, body: RawFields): "query" | "body" {
  if (Object.hasOwn(body, name)) return "body";
  return Object.hasOwn(query, name) || Object.keys(body).length === 0 ? "query" : "body";
}
