/** What every operator command works with, and how its arguments are read. */
import type { Config } from "../platform/config.ts";
import { invalidRequest } from "../platform/problem.ts";

export type Desk = {
  readonly env: Env;
  readonly settings: Config;
  /** The operator's name, which every audit event of theirs carries. */
  readonly operator: string;
  readonly words: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
};

export type OperatorCommand = (desk: Desk) => Promise<unknown>;

export function option(desk: Desk, name: string): string {
  const value = optional(desk, name);
  if (value === undefined) throw invalidRequest([{ path: `--${name}`, message: "is required" }]);
  return value;
}

export function optional(desk: Desk, name: string): string | undefined {
  const value = desk.options[name];
  if (value === undefined) return undefined;
  if (typeof value !== "string" || value === "") throw invalidRequest([{ path: `--${name}`, message: "must have a value" }]);
  return value;
}

/** A UUID in its usual spelling: ids are compared as text in tags, caches and alerts. */
export function idOption(desk: Desk, name: string): string {
  const id = option(desk, name).toLowerCase();
  if (!/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/.test(id)) throw invalidRequest([{ path: `--${name}`, message: "must be a UUID" }]);
  return id;
}

/** The word after the command's own, e.g. the venue of `venue pause venue_one`. */
export function argument(desk: Desk, name: string): string {
  const value = desk.words[0];
  if (value === undefined) throw invalidRequest([{ path: name, message: "is required" }]);
  return value;
}
