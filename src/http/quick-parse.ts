/**
 * Parses valid input several times as fast as zod. A schema is turned into a plan once. The plan
 * returns undefined for input that the schema may reject, so only zod reports errors. It covers
 * strict objects, lists, optional fields, defaults and the types of fields.ts. Zod parses the rest.
 */
import * as z from "zod";
import { converterOf, sourceText } from "./fields.ts";
import type { RawFields } from "./request.ts";

/** Returns `INVALID` for a value that the schema may reject. */
type Parse = (value: unknown) => unknown;
const INVALID = Symbol("invalid");

/** Null for a schema without a plan, such as one with rules over several fields. */
const plans = new WeakMap<z.ZodType, Parse | null>();

export function quickParse<Schema extends z.ZodType>(
  schema: Schema,
  given: RawFields,
): z.output<Schema> | undefined {
  let plan = plans.get(schema);
  if (plan === undefined) {
    plan = schema instanceof z.ZodObject ? objectPlan(schema) : null;
    plans.set(schema, plan);
  }
  const parsed = plan === null ? INVALID : plan(given);
  return parsed === INVALID ? undefined : parsedBy(parsed);
}

/** Safe cast: the plan is that of the schema, and a test compares both. */
function parsedBy<Output>(parsed: unknown): Output {
  return parsed as Output;
}

function planOf(schema: z.core.$ZodType): Parse {
  const plan =
    schema instanceof z.ZodObject
      ? objectPlan(schema)
      : schema instanceof z.ZodArray
        ? listPlan(schema)
        : fieldPlan(schema);
  if (plan !== null) return plan;
  return (value) => {
    const result = z.safeParse(schema, value);
    return result.success ? result.data : INVALID;
  };
}

function fieldPlan(schema: z.core.$ZodType): Parse | null {
  const convert = converterOf(schema);
  if (convert === undefined) return null;
  return (value) => {
    const read = sourceText(value);
    const converted = read === undefined ? undefined : convert(read.text, read.source);
    return converted === undefined ? INVALID : converted;
  };
}

function listPlan(schema: z.ZodArray): Parse | null {
  let [min, max] = [0, Infinity];
  for (const { _zod: check } of schema.def.checks ?? []) {
    const { def } = check;
    if (isMinLength(def)) min = def.minimum;
    else if (isMaxLength(def)) max = def.maximum;
    else return null;
  }
  const parseItem = planOf(schema.def.element);
  return (value) => {
    if (!Array.isArray(value) || value.length < min || value.length > max) return INVALID;
    const items: unknown[] = [];
    for (const item of value) {
      const parsed = parseItem(item);
      if (parsed === INVALID) return INVALID;
      items.push(parsed);
    }
    return items;
  };
}

type Member = {
  readonly name: string;
  readonly parse: Parse;
  readonly required: boolean;
  /** Of an absent member. */
  readonly fallback: unknown;
};

function objectPlan(schema: z.ZodObject): Parse | null {
  const isStrict = schema.def.catchall instanceof z.ZodNever;
  if (!isStrict || (schema.def.checks ?? []).length > 0) return null;
  const members = Object.entries(schema.shape).map(([name, type]) => memberOf(name, type));
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return INVALID;
    // Safe cast: an object, whose members the plan reads as unknown values.
    const given = value as Record<string, unknown>;
    const parsed: Record<string, unknown> = {};
    let found = 0;
    for (const { name, parse, required, fallback } of members) {
      if (Object.hasOwn(given, name)) {
        found++;
        const member = parse(given[name]);
        if (member === INVALID) return INVALID;
        parsed[name] = member;
      } else if (required) return INVALID;
      else if (fallback !== undefined) parsed[name] = fallback;
    }
    return found === Object.keys(given).length ? parsed : INVALID;
  };
}

function memberOf(name: string, type: z.core.$ZodType): Member {
  if (type instanceof z.ZodOptional) {
    const { _zod: inner } = type.def.innerType;
    // A default inside decides what an absent member is.
    if (inner.optin === undefined)
      return { name, parse: planOf(type.def.innerType), required: false, fallback: undefined };
  }
  if (type instanceof z.ZodDefault) {
    const fallback: unknown = type.def.defaultValue;
    // A default that is an object would be shared by all requests.
    if (typeof fallback !== "object")
      return { name, parse: planOf(type.def.innerType), required: false, fallback };
  }
  return { name, parse: planOf(type), required: true, fallback: undefined };
}

function isMinLength(def: z.core.$ZodCheckDef): def is z.core.$ZodCheckMinLengthDef {
  return def.check === "min_length";
}

function isMaxLength(def: z.core.$ZodCheckDef): def is z.core.$ZodCheckMaxLengthDef {
  return def.check === "max_length";
}
