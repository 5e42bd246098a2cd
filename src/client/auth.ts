/** Sessions, API keys, tickets: `client.auth`. */
import { type PageOptions, Pages } from "./pages.ts";
import type { Transport } from "./transport.ts";
import type { ApiKey, AuditEvent, NewApiKey, Scope, Session, Ticket, WhoAmI } from "./types.ts";

export class Auth {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** A session: scopes read and trade, for an hour. `Problem` `login_failed`, `login_throttled`, `account_frozen`. */
  login(body: { email: string; password: string }): Promise<Session> {
    return this.#transport.call({ method: "POST", path: "/auth/login", body, open: true });
  }

  /** A new user with a session. `Problem` `registration_closed`, `email_taken`. The password has 12 characters or more. */
  register(body: { email: string; password: string }): Promise<Session> {
    return this.#transport.call({ method: "POST", path: "/auth/register", body, open: true });
  }

  /** Ends all sessions of the user within 5 s, and with `revoke_keys` the API keys too. */
  async endSessions(body: { revoke_keys?: boolean } = {}): Promise<void> {
    await this.#transport.call({ method: "DELETE", path: "/auth/sessions", body, safe: true });
  }

  /**
   * A new API key, with its `secret` this once. Session only. The scopes are capped at the session's, so `withdraw` can
   * not be had here: an operator gives it.
   *
   * @example
   * ```ts
   * const key = await client.auth.createApiKey({ label: "bot", scopes: ["read", "trade"] });
   * const bot = client.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
   * ```
   */
  createApiKey(body: { label: string; scopes: Scope[]; expires_at?: string; allowed_ips?: string[] }): Promise<NewApiKey> {
    return this.#transport.call({ method: "POST", path: "/auth/api-keys", body });
  }

  apiKeys(options: PageOptions = {}): Pages<ApiKey> {
    return new Pages(this.#transport, "/auth/api-keys", options);
  }

  /** Revokes a key: for writes at once, for reads and open sockets within 5 s. What it placed stays. */
  revokeApiKey(body: { api_key_id: string }): Promise<ApiKey> {
    return this.#transport.call({ method: "DELETE", path: "/auth/api-keys", body, safe: true });
  }

  /**
   * A ticket that opens one socket within 30 s: with an API key it carries the key's scopes, with a session only read.
   * The streams of this client fetch their own.
   */
  wsTicket(): Promise<Ticket> {
    const { credential } = this.#transport;
    const signed = credential !== null && "apiKeyId" in credential;
    // An unused ticket dies by itself, so asking twice does no harm.
    return this.#transport.call({ method: "POST", path: signed ? "/auth/ws-ticket/signed" : "/auth/ws-ticket", safe: true });
  }

  /** Who the credential belongs to: the call to test a signer with. */
  whoami(): Promise<WhoAmI> {
    return this.#transport.call({ method: "GET", path: "/auth/whoami" });
  }

  /** Logins, keys, withdrawals and operator's actions that concern the user, newest first. */
  auditEvents(options: PageOptions = {}): Pages<AuditEvent> {
    return new Pages(this.#transport, "/auth/get-audit-events", options);
  }
}
