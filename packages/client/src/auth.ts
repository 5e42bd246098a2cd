/** Sessions, API keys, tickets: `client.auth`. */
import { type PageOptions, Pages } from "./pages.ts";
import type { Transport } from "./transport.ts";
import type { ApiKey, AuditEvent, NewApiKey, Scope, Session, Ticket, WhoAmI } from "./types.ts";
import { only } from "./wire.ts";

/**
 * Who is calling, and with which rights. Made by `Client`.
 *
 * @example
 * ```ts
 * const { user_id, scopes } = await client.auth.whoami();
 * console.log(user_id, scopes.includes("trade"));
 * ```
 */
export class Auth {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * A session: scopes read and trade, for `expires_in` seconds. `Problem` `login_failed`, `login_throttled`, `account_frozen`.
   *
   * @example
   * ```ts
   * const session = await client.auth.login({ email: "taker@demo.test", password: "correct horse battery" });
   * const balance = await client.withSession(session).custody.usdcBalance();
   * ```
   */
  login({ email, password }: { email: string; password: string }): Promise<Session> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/login",
      body: { email, password },
      open: true,
    });
  }

  /**
   * A new user with a session. The password has 12 characters or more. `Problem` `registration_closed`, `email_taken`.
   *
   * @example
   * ```ts
   * const session = await client.auth.register({ email: "new@demo.test", password: "correct horse battery" });
   * ```
   */
  register({ email, password }: { email: string; password: string }): Promise<Session> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/register",
      body: { email, password },
      open: true,
    });
  }

  /**
   * Ends all sessions of the user within 5 s, and with `revoke_keys` the API keys too. Session only; repeating it is safe.
   *
   * @example
   * ```ts
   * await client.auth.endSessions({ revoke_keys: true });
   * ```
   */
  async endSessions({ revoke_keys }: { revoke_keys?: boolean } = {}): Promise<void> {
    await this.#transport.call({
      method: "DELETE",
      path: "/auth/sessions",
      body: { revoke_keys },
      safe: true,
    });
  }

  /**
   * A new API key, with its `secret` this once. Session only. The scopes are capped at the session's, so `withdraw` can
   * not be had here: an operator gives it. `Problem` `scope_missing`, `api_key_limit`, `session_required`.
   *
   * @example
   * ```ts
   * const key = await client.auth.createApiKey({ label: "bot", scopes: ["read", "trade"] });
   * const bot = client.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
   * ```
   */
  createApiKey(body: {
    label: string;
    scopes: Scope[];
    expires_at?: string;
    allowed_ips?: string[];
  }): Promise<NewApiKey> {
    const fields = only(body, { label: true, scopes: true, expires_at: true, allowed_ips: true });
    return this.#transport.call({ method: "POST", path: "/auth/api-keys", body: fields });
  }

  /**
   * The user's API keys without their secrets, newest first, revoked ones included.
   *
   * @example
   * ```ts
   * for await (const key of client.auth.apiKeys()) {
   *   if (key.revoked_at === null && key.last_used_at === null) await client.auth.revokeApiKey(key);
   * }
   * ```
   */
  apiKeys({ limit, last_cursor }: PageOptions = {}): Pages<ApiKey> {
    return new Pages(this.#transport, "/auth/api-keys", { limit, last_cursor });
  }

  /**
   * Revokes a key: for writes at once, for reads and open sockets within 5 s. What it placed stays. Repeating it is safe.
   * With a session, or the key itself. `Problem` `api_key_unknown_id`.
   *
   * @example
   * ```ts
   * const { revoked_at } = await client.auth.revokeApiKey({ api_key_id: "7f0c0000-0000-4000-8000-000000000000" });
   * ```
   */
  revokeApiKey({ api_key_id }: { api_key_id: string }): Promise<ApiKey> {
    return this.#transport.call({
      method: "DELETE",
      path: "/auth/api-keys",
      body: { api_key_id },
      safe: true,
    });
  }

  /**
   * A ticket that opens one socket within 30 s: with an API key it carries the key's scopes, with a session only read.
   * The streams of this client fetch their own; this is for people who bring their own websocket.
   *
   * @example
   * ```ts
   * const { ticket } = await client.auth.wsTicket();
   * const socket = new WebSocket(`wss://rfq.example.com/account/stream?ticket=${ticket}`);
   * ```
   */
  wsTicket(): Promise<Ticket> {
    const { credential } = this.#transport;
    const signed = credential !== null && "apiKeyId" in credential;
    // An unused ticket dies by itself, so asking twice does no harm.
    return this.#transport.call({
      method: "POST",
      path: signed ? "/auth/ws-ticket/signed" : "/auth/ws-ticket",
      safe: true,
    });
  }

  /**
   * Who the credential belongs to: the call to test a signer with. `Problem` `signature_invalid` has what the service
   * signed in `body.signed`.
   *
   * @example
   * ```ts
   * const { credential, api_key_id } = await client.auth.whoami();
   * ```
   */
  whoami(): Promise<WhoAmI> {
    return this.#transport.call({ method: "GET", path: "/auth/whoami" });
  }

  /**
   * Logins, keys, withdrawals and operator's actions that concern the user, newest first.
   *
   * @example
   * ```ts
   * const { items } = await client.auth.auditEvents({ limit: 20 }).page();
   * for (const event of items) console.log(event.created_at, event.kind, event.actor, event.ip);
   * ```
   */
  auditEvents({ limit, last_cursor }: PageOptions = {}): Pages<AuditEvent> {
    return new Pages(this.#transport, "/auth/get-audit-events", { limit, last_cursor });
  }
}
