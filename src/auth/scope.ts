import { SCOPES, type Scope } from "../platform/actor.ts";
import { type Problem, problem } from "../platform/problem.ts";

/** The scopes of sessions during a security hold. */
export const HELD_SCOPES: readonly Scope[] = ["read"];

/** The requested scopes that the credential has, in the order read, trade, withdraw. */
export function capScopes(requested: readonly Scope[], held: readonly Scope[]): Scope[] {
  return SCOPES.filter((scope) => requested.includes(scope) && held.includes(scope));
}

/** Parses scopes as stored in D1 (`read,trade`). Ignores unknown words. */
export function readScopes(stored: string): Scope[] {
  const words = stored.split(",");
  return SCOPES.filter((scope) => words.includes(scope));
}

export function writeScopes(scopes: readonly Scope[]): string {
  return capScopes(scopes, SCOPES).join(",");
}

export function scopeMissing(required: Scope, granted: readonly Scope[]): Problem {
  return problem("scope_missing", `The credential lacks the scope ${required}.`, {
    required_scope: required,
    granted_scopes: granted,
  });
}
