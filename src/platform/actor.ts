/** The caller of a request and its credential, which auth/ verifies. */

export const SCOPES = ["read", "trade", "withdraw"] as const;
export type Scope = (typeof SCOPES)[number];

type ApiKeyCredential = {
  readonly kind: "api_key";
  readonly apiKeyId: string;
  /** Requests and quotes that the key signs need `idempotency_key` in the body. */
  readonly requireIdempotency?: boolean;
  /** Where the key pays, if not anywhere (auth/key-limits.ts). Lower-case hex. */
  readonly paysTo?: "all" | readonly string[];
};
type SessionCredential = {
  readonly kind: "session";
  readonly epoch: number;
  /** When the user logged in, by the clock of the Worker that issued the token. */
  readonly issuedAtMs: number;
  readonly expiresAtMs: number;
  /** Only of a `CheckedActor`. */
  readonly checkedTotp?: string | null;
  /** `mayWrite` of this actor requires that the account has no security hold. */
  readonly unheld?: true;
};

export type Actor = {
  readonly userId: string;
  readonly scopes: readonly Scope[];
  readonly credential: ApiKeyCredential | SessionCredential;
};
export type ApiKeyActor = Actor & { readonly credential: ApiKeyCredential };
export type SessionActor = Actor & { readonly credential: SessionCredential };
/**
 * A session after a check of the second factor. `checkedTotp` is the sealed TOTP secret whose code
 * was used, or null if TOTP was off. `mayWrite` of this actor requires that it is still so, because
 * TOTP may be turned on between the check and the guard.
 */
export type CheckedActor = SessionActor & {
  readonly credential: { readonly checkedTotp: string | null };
};

export function checkedActor(actor: SessionActor, checkedTotp: string | null): CheckedActor {
  return { ...actor, credential: { ...actor.credential, checkedTotp } };
}

export function unheld<Of extends SessionActor>(actor: Of): Of {
  return { ...actor, credential: { ...actor.credential, unheld: true } };
}

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
