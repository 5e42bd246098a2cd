import { SCOPES, type Scope } from "../platform/actor.ts";

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
