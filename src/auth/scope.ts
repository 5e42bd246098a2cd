import { SCOPES, type Scope } from "../platform/actor.ts";
/** The named scopes that `held` has too, in the order read, trade, withdraw. */
export function capScopes(named: readonly Scope[], held: readonly Scope[]): Scope[] {
  return SCOPES.filter((scope) => named.includes(scope) && held.includes(scope));
}

/** Scopes as D1 keeps them: `read,trade`. Words that are no scope grant nothing. */
export function readScopes(stored: string): Scope[] {
  const words = stored.split(",");
  return SCOPES.filter((scope) => words.includes(scope));
}

export function writeScopes(scopes: readonly Scope[]): string {
  return capScopes(scopes, SCOPES).join(",");
}
