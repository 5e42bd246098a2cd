/** What every operator command works with, and how its arguments are read. */
import type { z } from "@hono/zod-openapi";
import type { Config } from "../platform/config.ts";
import { invalidRequest, type Problem } from "../platform/problem.ts";

export type Desk = {
  readonly env: Env;
  readonly settings: Config;
  /** The operator's name, which every audit event of theirs carries. */
  readonly operator: string;
  readonly words: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
};

/** Rows of a list: the first so many unless told otherwise, and never more than the second. */
const DEFAULT_LISTED = 50;
const MAX_LISTED = 500;

export type OperatorCommand = (desk: Desk) => Promise<unknown>;

export function option(desk: Desk, name: string): string {
  const value = optional(desk, name);
  if (value === undefined) throw badOption(name, "is required");
  return value;
}

export function optional(desk: Desk, name: string): string | undefined {
  const value = desk.options[name];
  if (value === undefined) return undefined;
  if (typeof value !== "string" || value === "") throw badOption(name, "must have a value");
  return value;
}

/** A UUID in its usual spelling: ids are compared as text in tags, caches and alerts. */
export function idOption(desk: Desk, name: string): string {
  const id = option(desk, name).toLowerCase();
  if (!/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/.test(id))
    throw badOption(name, "must be a UUID");
  return id;
}

export function limitOption(desk: Desk): number {
  const text = optional(desk, "limit") ?? String(DEFAULT_LISTED);
  const limit = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (limit < 1 || limit > MAX_LISTED)
    throw badOption("limit", `must be an integer from 1 to ${MAX_LISTED}`);
  return limit;
}

export function oneOfOption<const Word extends string>(
  desk: Desk,
  name: string,
  words: readonly Word[],
): Word | undefined {
  const given = optional(desk, name);
  const word = words.find((known) => known === given);
  if (given !== undefined && word === undefined)
    throw badOption(name, `must be one of ${words.join(", ")}`);
  return word;
}

/** The option by the type that the public routes read the same thing with. */
export function fieldOption<T>(desk: Desk, name: string, type: z.ZodType<T>): T {
  const read = type.safeParse(option(desk, name));
  if (!read.success) throw badOption(name, read.error.issues[0]?.message ?? "is not valid");
  return read.data;
}

export function badOption(name: string, message: string): Problem {
  return invalidRequest([{ path: `--${name}`, message }]);
}

/** The word after the command's own, e.g. the venue of `venue pause venue_one`. */
export function argument(desk: Desk, name: string): string {
  const value = desk.words[0];
  if (value === undefined) throw invalidRequest([{ path: name, message: "is required" }]);
  return value;
}
