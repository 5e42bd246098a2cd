/** Who makes a call, with which credential. `auth/` proves it; every layer above may need the noun. */

export const SCOPES = ["read", "trade", "withdraw"] as const;
export type Scope = (typeof SCOPES)[number];

export type ApiKeyCredential = { readonly kind: "api_key"; readonly apiKeyId: string };
export type SessionCredential = {
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

/** Whose budget a call uses: the key's, else the user's, whether it comes by REST or down a socket. */
export function rateKeyOf({ userId, credential }: Actor): string {
  return credential.kind === "api_key" ? credential.apiKeyId : userId;
}

/** Which credentials a route accepts. */
export type Credential = "public" | "any" | "session" | "api_key";
export type ActorOf<C extends Credential> = C extends "public"
  ? undefined
  : C extends "session"
    ? SessionActor
    : C extends "api_key"
      ? ApiKeyActor
      : Actor;
