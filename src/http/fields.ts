/**
 * Field types of requests. Query values arrive as `QueryText` and body numbers as `JsonNumber`.
 * Each type accepts both, because a DELETE takes its fields in the query or in the body. Numbers
 * and booleans are text in a query and must have their JSON type in a body.
 */
import * as z from "zod";
import { normalText } from "../platform/normal-text.ts";
import { JsonNumber, parseJsonInteger } from "./json.ts";

/** JSON Schema of a field. `type` is required because zod cannot derive it from a transform. */
type Documented = {
  type: "string" | "integer" | "boolean" | ("string" | "null")[];
  [key: string]: unknown;
};

/** Sets the description of a field in the OpenAPI description. */
export function described<Schema extends z.ZodType>(schema: Schema, description: string): Schema {
  return schema.meta({ description });
}

/** A value of the query. It is text even if a body would contain a JSON number or boolean. */
export class QueryText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** Where the text of a field comes from: the query, a JSON string or a JSON number. */
export type Source = "query" | "string" | "number";

/** A field. `convert` returns undefined for invalid text. `message` never contains the value. */
export function field<T>(convert: Convert<T>, message: string, documented: Documented) {
  const schema = z
    .custom<string | JsonNumber | QueryText>((value) => sourceText(value) !== undefined, message)
    .transform((value, context): T => {
      const read = sourceText(value);
      const converted = read && convert(read.text, read.source);
      if (converted !== undefined) return converted;
      context.addIssue({ code: "custom", message });
      return z.NEVER;
    });
  return schema.meta(documented);
}

type Convert<T> = (text: string, source: Source) => T | undefined;

/** The text of a field. Undefined for a value that is none. */
function sourceText(value: unknown): { text: string; source: Source } | undefined {
  if (typeof value === "string") return { text: value, source: "string" };
  if (value instanceof JsonNumber) return { text: value.source, source: "number" };
  return value instanceof QueryText ? { text: value.text, source: "query" } : undefined;
}

/** A field that must be text. A JSON number is invalid. */
export function textField<T>(
  convert: (text: string) => T | undefined,
  message: string,
  documented: Documented,
) {
  return field(
    (text, source) => (source === "number" ? undefined : convert(text)),
    message,
    documented,
  );
}

/** A JSON number, or decimal text in a query. A JSON string is invalid. */
export function integer(min: number, max: number) {
  return field(
    (text, source) => integerText(text, min, max, source),
    `must be an integer from ${min} to ${max}`,
    { type: "integer", minimum: min, maximum: max },
  );
}

/** `true` or `false`, as a JSON boolean or as text in a query. */
export const boolean = z
  .custom<boolean | QueryText>(
    (value) =>
      typeof value === "boolean" ||
      (value instanceof QueryText && /^(true|false)$/.test(value.text)),
    "must be true or false",
  )
  .transform((value) => (value instanceof QueryText ? value.text === "true" : value))
  .meta({ type: "boolean" });

export const uuidField = textField(
  (text) =>
    /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/i.test(text) ? text.toLowerCase() : undefined,
  "must be a UUID",
  { type: "string", format: "uuid" },
);

/** An RFC 3339 instant in Unix milliseconds. A space before the offset is an unescaped `+`. */
export const timestamp = textField(parseTimestamp, "must be an RFC 3339 date-time", {
  type: "string",
  format: "date-time",
});

/** As `timestamp`, in nanoseconds, so that no digit is lost. */
export const preciseTimestamp = textField(parseNanos, "must be an RFC 3339 date-time", {
  type: "string",
  format: "date-time",
});

/** The client's deadline of a command. A past one is rejected by the guard, not as a bad field. */
export const notAfter = described(
  timestamp,
  "The command takes effect before this instant by the server's clock, or never",
).optional();

export function oneOf<const Word extends string>(words: readonly Word[]) {
  return textField(
    (text) => words.find((word) => word === text),
    `must be one of ${words.join(", ")}`,
    { type: "string", enum: [...words] },
  );
}

/** Some of the words, separated by commas. */
export function listOf<const Word extends string>(words: readonly Word[]) {
  const word = `(${words.map((name) => name.replaceAll(".", "\\.")).join("|")})`;
  return textField(
    (text) => {
      const named = text.split(",").map((given) => words.find((known) => known === given.trim()));
      return named.every((known) => known !== undefined) ? named : undefined;
    },
    `must be a comma-separated list of ${words.join(", ")}`,
    { type: "string", pattern: `^${word}(,${word})*$` },
  );
}

/**
 * Text for people, in the one spelling of what looks the same (normal-text.ts). `min` and `max`
 * count its Unicode code points.
 */
export function boundedText(min: number, max: number) {
  const printable = (given: string) => {
    const text = normalText(given);
    if (text === undefined) return undefined;
    const { length } = Array.from(text);
    return length >= min && length <= max ? text : undefined;
  };
  return textField(
    printable,
    `must be text of ${min} to ${max} characters without control or invisible characters`,
    {
      type: "string",
      minLength: min,
      maxLength: max,
      pattern: "^[^\\u0000-\\u001F\\u007F-\\u009F]*$",
    },
  );
}

export function pattern(rule: RegExp, message: string) {
  return textField((given) => (rule.test(given) ? given : undefined), message, {
    type: "string",
    pattern: rule.source,
  });
}

/** Of decimal text in a query, or of a JSON number, as which `1e3` and `1000.0` are integers. */
function integerText(given: string, min: number, max: number, source: Source): number | undefined {
  if (source === "string") return undefined;
  const exact =
    source === "number"
      ? parseJsonInteger(given)
      : /^(?!-0+$)-?\d{1,16}$/.test(given)
        ? BigInt(given)
        : undefined;
  return exact !== undefined && exact >= min && exact <= max ? Number(exact) : undefined;
}

const FIRST_INSTANT = Date.parse("0000-01-01T00:00:00Z");
const LAST_INSTANT = Date.parse("9999-12-31T23:59:59.999Z");
export const NANOS_PER_MS = 1_000_000n;

const INSTANT =
  /^(\d{4})-(\d{2})-(\d{2})T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]\d{2}:\d{2})$/i;

export function parseTimestamp(given: string): number | undefined {
  const spelled = given.replace(/ (\d{2}:\d{2})$/, "+$1");
  const parts = INSTANT.exec(spelled);
  if (parts === null) return undefined;
  const instant = Date.parse(spelled.toUpperCase());
  // Date.parse turns 31 February into a day in March, but a date that does not exist is invalid.
  const daysInMonth = new Date(Date.UTC(Number(parts[1]), Number(parts[2]), 0)).getUTCDate();
  if (Number(parts[3]) > daysInMonth) return undefined;
  // An offset can move an instant out of the four-digit years, which RFC 3339 cannot express.
  return instant >= FIRST_INSTANT && instant <= LAST_INSTANT ? instant : undefined;
}

/** As `parseTimestamp`, in nanoseconds, because range bounds are compared before rounding. */
function parseNanos(given: string): bigint | undefined {
  const ms = parseTimestamp(given);
  if (ms === undefined) return undefined;
  const fraction = /\.(\d+)/.exec(given)?.[1] ?? "";
  return BigInt(ms) * NANOS_PER_MS + BigInt(fraction.padEnd(9, "0").slice(3));
}

/** An instant in a response, and one that may be null. */
export const timeOut = (description: string) => described(z.iso.datetime(), description);
export const timeOrNullOut = (description: string) =>
  described(z.iso.datetime().nullable(), description);

/** An amount in a response: canonical lower-case hex. */
export function u256Out(description: string) {
  return z
    .string()
    .regex(/^0x(0|[1-9a-f][0-9a-f]{0,63})$/)
    .meta({ description });
}
