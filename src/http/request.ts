/** Reading what a caller sent: raw target, raw bytes, then fields. All errors of a request are told in one answer. */
import { z } from "@hono/zod-openapi";
import { QueryText } from "./fields.ts";
import { type FieldError, invalidRequest, problem, Problem } from "../platform/problem.ts";
import { parseJsonObject, sameJson, shortName } from "./json.ts";

export const BODY_LIMIT_BYTES = 64 * 1024;

/**
 * The request target as it reached the Worker: `request.url` without its origin. Not `pathname + search`, which drops
 * a lone `?`, and not Hono's path, which is decoded; the HMAC covers these very characters.
 */
export function rawTarget(url: string): string {
  const slash = url.indexOf("/", url.indexOf("://") + 3);
  return slash === -1 ? "/" : url.slice(slash);
}

/** The exact bytes of the body, counted while reading: a stated content-length may be missing or a lie. */
export async function readBody(request: Request): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length") ?? "0") > BODY_LIMIT_BYTES) throw bodyTooLarge();
  if (request.body === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) {
    size += read.value.byteLength;
    if (size > BODY_LIMIT_BYTES) {
      await reader.cancel();
      throw bodyTooLarge();
    }
    chunks.push(read.value);
  }
  const only = chunks[0];
  return chunks.length === 1 && only !== undefined ? only : concat(chunks, size);
}

function concat(chunks: readonly Uint8Array[], size: number): Uint8Array {
  const whole = new Uint8Array(size);
  let offset = 0;
  for (const chunk of chunks) {
    whole.set(chunk, offset);
    offset += chunk.byteLength;
  }
  return whole;
}

function bodyTooLarge(): Problem {
  return problem("body_too_large", `A body has at most ${BODY_LIMIT_BYTES} bytes.`);
}

/** Needed only when there is a body. */
export function checkContentType(request: Request, body: Uint8Array): void {
  if (body.byteLength === 0) return;
  const type = request.headers.get("content-type") ?? "";
  if (/^application\/json\s*(;\s*charset="?utf-8"?\s*)?$/i.test(type.trim())) return;
  throw problem("content_type_unsupported", "A body needs content-type: application/json.");
}

/** Fields by name, before validation. */
export type Given = Readonly<Record<string, unknown>>;

export function queryFields(url: string, errors: FieldError[]): Given {
  const target = rawTarget(url);
  const mark = target.indexOf("?");
  const given: Record<string, unknown> = Object.create(null);
  if (mark === -1) return given;
  // With its own `?`: URLSearchParams drops one, and would read the second of `??x=1` away.
  for (const [name, value] of new URLSearchParams(target.slice(mark))) {
    const path = `query.${shortName(name)}`;
    if (Object.hasOwn(given, name)) errors.push({ path, message: "is given twice" });
    else if (!value.isWellFormed() || value.includes("\u0000"))
      errors.push({ path, message: "is not text" });
    given[name] = new QueryText(value);
  }
  return given;
}

export function bodyFields(body: Uint8Array, errors: FieldError[]): Given | undefined {
  try {
    return parseJsonObject(body, errors);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    errors.push(...(error.data.errors ?? []));
    return undefined;
  }
}

/** Validates `given`; errors are collected under `where` (`query` or `body`, or a function of the field's name). */
export function validate<Schema extends z.ZodType>(
  schema: Schema,
  given: Given,
  where: string | ((name: string) => string),
  errors: FieldError[],
): z.output<Schema> | undefined {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  for (const error of result.error.issues.flatMap((issue) => toFieldErrors(issue, given, where))) {
    // Two wrong items of a list are one error of the list.
    if (!errors.some(({ path, message }) => path === error.path && message === error.message))
      errors.push(error);
  }
  return undefined;
}

function toFieldErrors(
  issue: z.core.$ZodIssue,
  given: Given,
  where: string | ((name: string) => string),
): FieldError[] {
  const name = issue.path[0];
  const place = (field: PropertyKey | undefined) =>
    typeof where === "string" ? where : where(String(field ?? ""));
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => ({
      path: [place(name ?? key), ...issue.path, shortName(key)].join("."),
      message: "is not a field",
    }));
  }
  // A field type's own message begins with "must be"; a rule over several fields may point at an absent one with its own words.
  const typed =
    issue.code === "invalid_type" ||
    (issue.code === "custom" && issue.message.startsWith("must be"));
  const missing = typed && issue.path.length === 1 && !Object.hasOwn(given, String(name));
  return [
    {
      path: [place(name), ...issue.path].map(String).join("."),
      message: missing ? "is required" : issue.message,
    },
  ];
}

/**
 * The fields of a DELETE, from the query, the body, or both. One given in both must say the same: by value, not by
 * spelling, so both are read through the field's own schema. The body's then stands, and its errors are told with the rest.
 */
export function mergeFields(
  schema: z.ZodObject,
  query: Given,
  body: Given,
  errors: FieldError[],
): Given {
  for (const [name, type] of Object.entries(schema.shape)) {
    if (!Object.hasOwn(query, name) || !Object.hasOwn(body, name)) continue;
    const alone = z.object({ [name]: type });
    const inQuery = validate(alone, { [name]: query[name] }, "query", errors);
    const inBody = validate(alone, { [name]: body[name] }, "body", []);
    if (inQuery !== undefined && inBody !== undefined && !sameJson(inQuery, inBody))
      errors.push({ path: `body.${name}`, message: "differs from the query" });
  }
  return Object.assign(Object.create(null), query, body);
}

/** Where a field of a DELETE was given; one that is missing is looked for beside the others. */
export function placeOf(name: string, query: Given, body: Given): "query" | "body" {
  if (Object.hasOwn(body, name)) return "body";
  return Object.hasOwn(query, name) || Object.keys(body).length === 0 ? "query" : "body";
}

/** More errors than this help nobody, and a body of errors alone must not grow the answer. */
const MAX_FIELD_ERRORS = 50;

export function throwIfAny(errors: readonly FieldError[]): void {
  if (errors.length > 0) throw invalidRequest(errors.slice(0, MAX_FIELD_ERRORS));
}
