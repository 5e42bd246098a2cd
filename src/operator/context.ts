/** The context of operator commands, and functions that read their arguments and options. */
import type * as z from "zod";
import { boundedText } from "../http/fields.ts";
import type { Config } from "../platform/config.ts";
import { invalidRequest, type Problem } from "../platform/problem.ts";
import type { Venue } from "../platform/venues.ts";

export type OperatorContext = {
  readonly env: Env;
  readonly settings: Config;
  /** The operator's name, for audit events. */
  readonly operator: string;
  /** The words after the name of the command, e.g. the venue of `venue pause venue_one`. */
  readonly words: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
};

/** The operator in audit events. */
export function actorOf({ operator }: OperatorContext): `operator:${string}` {
  return `operator:${operator}`;
}

const DEFAULT_LIST_LIMIT = 50;
const MAX_LIST_LIMIT = 500;

export type OperatorCommand = (context: OperatorContext) => Promise<unknown>;

/** Longest text of an option, such as a reason. */
const MAX_TEXT = 500;

/** Whether a flag without a value is given. */
export function flag(context: OperatorContext, name: string): boolean {
  const value = context.options[name];
  if (value === undefined) return false;
  if (value !== "true") throw badOption(name, "takes no value");
  return true;
}

export function option(context: OperatorContext, name: string): string {
  const value = optional(context, name);
  if (value === undefined) throw badOption(name, "is required");
  return value;
}

export function optional(context: OperatorContext, name: string): string | undefined {
  const value = context.options[name];
  if (value === undefined) return undefined;
  if (typeof value !== "string" || value === "") throw badOption(name, "must have a value");
  return value;
}

/** A text that people read. */
export function textOption(context: OperatorContext, name: string): string {
  return fieldOption(context, name, boundedText(1, MAX_TEXT));
}

/** A UUID in its canonical form, because socket tags, caches and alerts compare ids as text. */
export function idOption(context: OperatorContext, name: string): string {
  const id = option(context, name).toLowerCase();
  if (!/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/.test(id))
    throw badOption(name, "must be a UUID");
  return id;
}

/** An integer of decimal digits, at most fifteen. Undefined if the option is not given. */
export function optionalInteger(
  context: OperatorContext,
  name: string,
  { min = 0, max = 999_999_999_999_999 } = {},
): number | undefined {
  const text = optional(context, name);
  if (text === undefined) return undefined;
  const number = /^\d{1,15}$/.test(text) ? Number(text) : -1;
  if (number < min || number > max)
    throw badOption(name, `must be an integer from ${min} to ${max}`);
  return number;
}

export function integerOption(context: OperatorContext, name: string): number {
  const number = optionalInteger(context, name);
  if (number === undefined) throw badOption(name, "is required");
  return number;
}

export function limitOption(context: OperatorContext): number {
  return optionalInteger(context, "limit", { min: 1, max: MAX_LIST_LIMIT }) ?? DEFAULT_LIST_LIMIT;
}

export function oneOfOption<const Word extends string>(
  context: OperatorContext,
  name: string,
  words: readonly Word[],
): Word | undefined {
  const given = optional(context, name);
  const word = words.find((known) => known === given);
  if (given !== undefined && word === undefined)
    throw badOption(name, `must be one of ${words.join(", ")}`);
  return word;
}

/** Parses an option with the field type that the public routes use. */
export function fieldOption<T>(context: OperatorContext, name: string, type: z.ZodType<T>): T {
  const parsed = type.safeParse(option(context, name));
  if (!parsed.success) throw badOption(name, parsed.error.issues[0]?.message ?? "is not valid");
  return parsed.data;
}

/** As `fieldOption`. Undefined if the option is not given. */
export function optionalField<T>(
  context: OperatorContext,
  name: string,
  type: z.ZodType<T>,
): T | undefined {
  return context.options[name] === undefined ? undefined : fieldOption(context, name, type);
}

/** Parses what an order contains. Errors name the place within it, below `at`. */
export function parse<Schema extends z.ZodType>(
  schema: Schema,
  given: unknown,
  ...at: readonly string[]
): z.output<Schema> {
  const result = schema.safeParse(given);
  if (result.success) return result.data;
  throw invalidRequest(
    result.error.issues.map(({ path, message }) => ({ path: [...at, ...path].join("."), message })),
  );
}

export function readJson(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalidRequest([{ path, message: "must be JSON" }]);
  }
}

/** A mistyped venue would list a market that nobody can trade. */
export function checkVenues(
  { settings }: OperatorContext,
  venues: readonly Venue[],
  path: string,
): void {
  const served = settings.VENUES.map(({ venue_id }) => venue_id);
  if (!venues.every((venue) => served.includes(venue)))
    throw invalidRequest([{ path, message: `must be one of ${served.join(", ")}` }]);
}

export function badOption(name: string, message: string): Problem {
  return invalidRequest([{ path: `--${name}`, message }]);
}

/** The required word after the name of the command. `name` is for the error. */
export function argument(context: OperatorContext, name: string): string {
  const value = context.words[0];
  if (value === undefined) throw invalidRequest([{ path: name, message: "is required" }]);
  return value;
}
