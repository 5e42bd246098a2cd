/**
 * Field types of requests. Query values arrive as `QueryText` and body numbers as `JsonNumber`; each type takes both, so
 * that one schema serves a field wherever it is given (DELETE takes its fields in either place). What a query can only
 * say in text, a body says in its own JSON type.
 */
import { z } from "@hono/zod-openapi";
import { JsonNumber, parseJsonInteger } from "./json.ts";

type Context = z.core.$RefinementCtx;
/** JSON-schema text of a field; `type` given outright, since a transform has none of its own. */
type Documented = {
  type: "string" | "integer" | "boolean" | ("string" | "integer")[];
  [key: string]: unknown;
};

/** A value of a query, which is text even where a body has a JSON number or boolean. */
export class QueryText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** Where a field's text stood: in the query, in a JSON string, or as a JSON number. */
export type Source = "query" | "string" | "number";

/**
 * A field whose text is converted once, here at the edge. `convert` returns undefined for what it refuses; `message`
 * then names the rule, never the value.
 */
export function field<T>(
  convert: (text: string, source: Source) => T | undefined,
  message: string,
  documented: Documented,
) {
  return z
    .custom<string | JsonNumber | QueryText>(
      (value) =>
        typeof value === "string" || value instanceof JsonNumber || value instanceof QueryText,
      message,
    )
    .transform((value, context): T => {
      if (value instanceof JsonNumber)
        return convert(value.source, "number") ?? refuse(context, message);
      if (value instanceof QueryText)
        return convert(value.text, "query") ?? refuse(context, message);
      return convert(value, "string") ?? refuse(context, message);
    })
    .openapi(documentation(documented));
}

/** A field of text only; a JSON number is refused. */
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

/** A JSON number, or decimal text in a query; a JSON string is refused. */
export function integer(min: number, max: number) {
  return field(
    (text, source) => integerText(text, min, max, source),
    `must be an integer from ${min} to ${max}`,
    {
      type: "integer",
      minimum: min,
      maximum: max,
    },
  );
}

/** `true` and `false` in JSON; the same words in a query. */
export const boolean = z
  .custom<boolean | QueryText>(
    (value) =>
      typeof value === "boolean" ||
      (value instanceof QueryText && /^(true|false)$/.test(value.text)),
    "must be true or false",
  )
  .transform((value) => (value instanceof QueryText ? value.text === "true" : value))
  .openapi({ type: "boolean" });

export const uuidField = textField(
  (text) =>
    /^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/.test(text)
      ? text.toLowerCase()
      : undefined,
  "must be a UUID",
  { type: "string", format: "uuid" },
);

/** An RFC 3339 instant with any offset, as Unix milliseconds. A space where `+` belongs is an unescaped `+`. */
export const timestamp = textField(parseTimestamp, "must be an RFC 3339 date-time", {
  type: "string",
  format: "date-time",
});

/** The same in nanoseconds, with every digit that was given. */
export const preciseTimestamp = textField(parseNanos, "must be an RFC 3339 date-time", {
  type: "string",
  format: "date-time",
});

export function oneOf<const Word extends string>(words: readonly Word[]) {
  return textField(
    (text) => words.find((word) => word === text),
    `must be one of ${words.join(", ")}`,
    {
      type: "string",
      enum: [...words],
    },
  );
}

/** Text between two lengths, counted in characters, without control characters. */
export function text(min: number, max: number) {
  const printable = (given: string) => {
    const length = [...given].length;
    return length >= min && length <= max && !/\p{Cc}/u.test(given) ? given : undefined;
  };
  return textField(
    printable,
    `must be text of ${min} to ${max} characters without control characters`,
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

/** A query's decimal text or a JSON number's source (`1e3` and `1000.0` are integers there), as a safe integer within bounds. */
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

export function parseTimestamp(given: string): number | undefined {
  const spelled = given.replace(/ (\d{2}:\d{2})$/, "+$1");
  const parts =
    /^(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/.exec(
      spelled,
    );
  if (parts === null) return undefined;
  const [, , month = "", day = "", hour = "", minute = "", second = ""] = parts;
  const instant = Date.parse(spelled.toUpperCase());
  // Date.parse rolls 31 February over to March; a date that does not exist is refused instead.
  const daysInMonth = new Date(Date.UTC(Number(parts[1]), Number(month), 0)).getUTCDate();
  if (
    Number.isNaN(instant) ||
    Number(day) > daysInMonth ||
    Number(hour) > 23 ||
    Number(minute) > 59 ||
    Number(second) > 59
  )
    return undefined;
  // What an offset moves out of the four-digit years cannot be written as RFC 3339 any more.
  return instant >= FIRST_INSTANT && instant <= LAST_INSTANT ? instant : undefined;
}

/** As `parseTimestamp`, in nanoseconds: the bounds of a range are compared before they are rounded. */
function parseNanos(given: string): bigint | undefined {
  const ms = parseTimestamp(given);
  if (ms === undefined) return undefined;
  const fraction = /\.(\d+)/.exec(given)?.[1] ?? "";
  return BigInt(ms) * NANOS_PER_MS + BigInt(fraction.padEnd(9, "0").slice(3));
}

function refuse(context: Context, message: string): never {
  context.addIssue({ code: "custom", message });
  return z.NEVER;
}

type OpenApiMetadata = Parameters<z.ZodString["openapi"]>[0];

/** zod-to-openapi types its metadata per zod class; ours is a plain JSON-schema fragment. */
function documentation(documented: Documented): OpenApiMetadata & object {
  return documented as OpenApiMetadata & object;
}
