/** Checks the kind of credential and the scope, in the order of contract.md section 2. */
import { type Problem, problem } from "../platform/problem.ts";
import type { Actor, Scope } from "../platform/actor.ts";

export type Needs = {
  readonly credential: "any" | "session" | "api_key";
  readonly scope: Scope | undefined;
  /** The scope that an API key must have where a session needs none. */
  readonly keyScope?: Scope | undefined;
};

/** The reason why the actor may not use the route. Undefined if they may. */
export function permissionProblem(
  actor: Pick<Actor, "scopes"> & { credential: { kind: "session" | "api_key" } },
  needs: Needs,
): Problem | undefined {
  const { kind } = actor.credential;
  if (needs.credential === "session" && kind !== "session")
    return problem("session_required", "This operation requires a session.");
  if (needs.credential === "api_key" && kind !== "api_key") {
    if (needs.scope === "withdraw")
      return problem(
        "session_cannot_withdraw",
        "A withdrawal requires an API key with the scope withdraw.",
      );
    return problem("api_key_required", "This operation requires an API key.");
  }
  const scope = kind === "api_key" ? (needs.keyScope ?? needs.scope) : needs.scope;
  if (scope === undefined || actor.scopes.includes(scope)) return undefined;
  return scopeMissing(scope, actor.scopes);
}

export function scopeMissing(required: Scope, granted: readonly Scope[]): Problem {
  return problem("scope_missing", `The credential lacks the scope ${required}.`, {
    required_scope: required,
    granted_scopes: granted,
  });
}
