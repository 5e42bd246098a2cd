/**
 * The caller of a request and its credential. `auth/` verifies the credential. The types are here
 * because every layer uses them.
 */

export const SCOPES = ["read", "trade", "withdraw"] as const;
export type Scope = (typeof SCOPES)[number];

type ApiKeyCredential = {
  readonly kind: "api_key";
  readonly apiKeyId: string;
  /** Requests and quotes that the key signs need `idempotency_key` in the body. */
  readonly requireIdempotency?: boolean;
};
type SessionCredential = {
  readonly kind: "session";
  readonly epoch: number;
  readonly expiresAtMs: number;
};

export type Actor = {
  readonly userId: string;
  readonly scopes: readonly Scope[];
  readonly credential: ApiKeyCredential | SessionCredential;
};
export type ApiKeyActor = Actor & { readonly credential: ApiKeyCredential };
export type SessionActor = Actor & { readonly credential: SessionCredential };

/** Identifies a credential: one API key, or all sessions of a user together. */
export function credentialIdOf({ userId, credential }: Actor): string {
  return credential.kind === "api_key" ? credential.apiKeyId : `sessions:${userId}`;
}

/** The kind of credential that a route accepts. */
export type Credential = "public" | "any" | "session" | "api_key";
export type ActorOf<C extends Credential> = C extends "public"
  ? undefined
  : C extends "session"
    ? SessionActor
    : C extends "api_key"
      ? ApiKeyActor
      : Actor;
