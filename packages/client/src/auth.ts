/** Sessions, API keys and websocket tickets: `client.auth`. */
import { type PageOptions, Pages } from "./pages.ts";
import type { CallOptions, Transport } from "./transport.ts";
import type {
  ApiKey,
  AuditEvent,
  KeyLimits,
  NewApiKey,
  Policy,
  PolicyState,
  Scope,
  Session,
  Ticket,
  Totp,
  WhoAmI,
} from "./types.ts";
import { pick, pickWithNull } from "./wire.ts";

/** What a session's call that changes who may act contains. `totp_code` if TOTP is on. */
export type StepUp = { password: string; totp_code?: string };
const STEP_UP = { password: true, totp_code: true } as const;

/**
 * Accounts and credentials. Created by `Client` as `client.auth`.
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
   * Logs in with email and password, and with `totp_code` or `recovery_code` if TOTP is on. The
   * session has the scopes read and trade and lasts for `expires_in` seconds. Throws `Problem`:
   * `login_failed`, `login_throttled`, `account_frozen`, `totp_required`, `totp_invalid`.
   *
   * @example
   * ```ts
   * const session = await client.auth.login({
   *   email: "you@example.com",
   *   password: "correct horse battery",
   * });
   * const balance = await client.withSession(session).custody.usdcBalance();
   * ```
   */
  login(
    body: { email: string; password: string; totp_code?: string; recovery_code?: string },
    options: CallOptions = {},
  ): Promise<Session> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/login",
      body: pick(body, { email: true, password: true, totp_code: true, recovery_code: true }),
      public: true,
      options,
    });
  }

  /**
   * Creates a user and logs in. The password needs at least 12 characters.
   * Throws `Problem`: `registration_closed`, `email_taken`, `login_throttled`.
   *
   * @example
   * ```ts
   * const session = await client.auth.register({
   *   email: "you@example.com",
   *   password: "correct horse battery",
   * });
   * ```
   */
  register(
    { email, password }: { email: string; password: string },
    options: CallOptions = {},
  ): Promise<Session> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/register",
      body: { email, password },
      public: true,
      options,
    });
  }

  /**
   * Changes the password. All earlier sessions end, so continue with the one that is returned. With
   * `revoke_keys`, also revokes the API keys that sessions minted. Needs a session.
   * Throws `Problem`: `login_failed` if `password` is wrong, `login_throttled`.
   *
   * @example
   * ```ts
   * const session = await client.auth.changePassword({
   *   password: "correct horse battery",
   *   new_password: "a better horse battery",
   *   revoke_keys: true,
   * });
   * const again = client.withSession(session);
   * ```
   */
  changePassword(
    body: StepUp & { new_password: string; revoke_keys: boolean },
    options: CallOptions = {},
  ): Promise<Session> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/change-password",
      body: pick(body, { ...STEP_UP, new_password: true, revoke_keys: true }),
      options,
    });
  }

  /**
   * Returns the limits of the account, and what is used of them.
   *
   * @example
   * ```ts
   * const { policy, used } = await client.auth.policy();
   * console.log(policy.max_trade_usdc_per_day, used.trade_usdc);
   * ```
   */
  policy(options: CallOptions = {}): Promise<PolicyState> {
    return this.#transport.call({ method: "GET", path: "/auth/policy", options });
  }

  /**
   * Changes limits of the account. A field that is left out stays. Stricter values apply at once,
   * looser ones after a delay (`active_from`), and naming a current value cancels them. Needs a
   * session. Throws `Problem`: `totp_not_enabled` for approvals without TOTP, `login_failed`,
   * `totp_required`, `totp_invalid`, `login_throttled`, `security_hold`.
   *
   * @example
   * ```ts
   * const { pending } = await client.auth.setPolicy({
   *   password: "correct horse battery",
   *   max_trade_usdc_per_day: 5_000_000_000n,
   * });
   * ```
   */
  setPolicy(body: StepUp & Partial<Policy>, options: CallOptions = {}): Promise<PolicyState> {
    const fields = pickWithNull(body, {
      ...STEP_UP,
      sessions_trade: true,
      max_trade_usdc_per_day: true,
      withdraw_max_usdc_per_day: true,
      withdraw_listed_only: true,
      withdraw_approval_above: true,
    });
    return this.#transport.call({ method: "POST", path: "/auth/policy", body: fields, options });
  }

  /**
   * Returns a TOTP secret, to turn TOTP on or to move it to another device. It counts once
   * `confirmTotp` has confirmed it, within 10 minutes. Needs a session. Throws `Problem`:
   * `login_failed`, `totp_required`, `totp_invalid`, `login_throttled`.
   *
   * @example
   * ```ts
   * const { otpauth_uri } = await client.auth.startTotp({ password: "correct horse battery" });
   * console.log(otpauth_uri); // show it as a QR code
   * ```
   */
  startTotp(
    body: StepUp & { recovery_code?: string },
    options: CallOptions = {},
  ): Promise<{ secret: string; otpauth_uri: string }> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/totp",
      body: pick(body, { ...STEP_UP, recovery_code: true }),
      options,
    });
  }

  /**
   * Turns TOTP on with a code of the new secret. Returns ten recovery codes, each valid once, so
   * store them. If TOTP is on, the new device and its codes count from `active_from` on, after the
   * security delay, unless `startTotp` took a recovery code. `cancelTotpRemoval` cancels it. Needs
   * a session. Throws `Problem`: `totp_invalid`.
   *
   * @example
   * ```ts
   * const { recovery_codes } = await client.auth.confirmTotp({ totp_code: "492039" });
   * ```
   */
  confirmTotp(
    { totp_code }: { totp_code: string },
    options: CallOptions = {},
  ): Promise<{ recovery_codes: string[]; active_from: string | null }> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/confirm-totp",
      body: { totp_code },
      options,
    });
  }

  /**
   * Turns TOTP off at `removal_at`, after the security delay. Takes a code or a recovery code.
   * Needs a session. Throws `Problem`: `totp_not_enabled`, `login_failed`, `totp_required`,
   * `totp_invalid`, `login_throttled`.
   *
   * @example
   * ```ts
   * const { removal_at } = await client.auth.removeTotp({
   *   password: "correct horse battery",
   *   recovery_code: "JBSW-Y3DP-EHPK-3PXP",
   * });
   * ```
   */
  removeTotp(
    body: StepUp & { recovery_code?: string },
    options: CallOptions = {},
  ): Promise<{ removal_at: string }> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/remove-totp",
      body: pick(body, { ...STEP_UP, recovery_code: true }),
      options,
    });
  }

  /**
   * Cancels a removal or a replacement of TOTP that has not taken effect. Needs a session.
   * Idempotent, so the client retries it.
   *
   * @example
   * ```ts
   * const { removal_at } = await client.auth.cancelTotpRemoval(); // null
   * ```
   */
  cancelTotpRemoval(options: CallOptions = {}): Promise<Totp> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/cancel-totp-removal",
      body: {},
      idempotent: true,
      options,
    });
  }

  /**
   * Cancels a change of the email address that operators have ordered, with the `cancel_token` of
   * its notice. Needs no credential. Throws `Problem`: `invalid_request` for another token.
   *
   * @example
   * ```ts
   * const { cancelled } = await client.auth.cancelEmailChange({ token: "019a….a1.q83v" });
   * ```
   */
  cancelEmailChange(
    { token }: { token: string },
    options: CallOptions = {},
  ): Promise<{ cancelled: boolean }> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/cancel-email-change",
      body: { token },
      public: true,
      options,
    });
  }

  /**
   * Freezes your own account at once: every credential stops working, sessions end, open requests
   * and quotes are cancelled. `unfreeze` ends it. Takes a session, or a key with the scope trade or
   * withdraw. Throws `Problem`: `scope_missing`, `account_frozen` if it is frozen already.
   *
   * @example
   * ```ts
   * await client.auth.freeze();
   * ```
   */
  freeze(options: CallOptions = {}): Promise<{ user_id: string; frozen_by: "self" }> {
    return this.#transport.call({ method: "POST", path: "/auth/freeze", body: {}, options });
  }

  /**
   * Ends a freeze of your own, with a one-time code. With `revoke_keys`, also revokes the API keys
   * that sessions minted. Throws `Problem`: `login_failed`, `totp_invalid`, `login_throttled`, and
   * `account_frozen` if only the operator can end it: without TOTP, after the operator's freeze, or
   * if the password or the authenticator changed less than the security delay before the freeze.
   *
   * @example
   * ```ts
   * await client.auth.unfreeze({
   *   email: "you@example.com",
   *   password: "correct horse battery",
   *   totp_code: "492039",
   *   revoke_keys: true,
   * });
   * ```
   */
  unfreeze(
    body: { email: string; password: string; totp_code: string; revoke_keys: boolean },
    options: CallOptions = {},
  ): Promise<{ user_id: string; revoked_keys: boolean }> {
    return this.#transport.call({
      method: "POST",
      path: "/auth/unfreeze",
      body: pick(body, { email: true, password: true, totp_code: true, revoke_keys: true }),
      public: true,
      options,
    });
  }

  /**
   * Ends all sessions of the user within 5 s, and revokes all API keys unless `revoke_keys` is
   * false. Needs a session. Idempotent, so the client retries it.
   *
   * @example
   * ```ts
   * await client.auth.endSessions({ revoke_keys: false });
   * ```
   */
  async endSessions(
    { revoke_keys }: { revoke_keys?: boolean } = {},
    options: CallOptions = {},
  ): Promise<void> {
    await this.#transport.call({
      method: "DELETE",
      path: "/auth/sessions",
      body: { revoke_keys },
      idempotent: true,
      options,
    });
  }

  /**
   * Creates an API key. Its `secret` is returned only here, so store it. Needs a session. A key
   * gets at most the scopes of the session; a key with the scope withdraw comes from the operator.
   * It ends after 90 days unless `expires_at` is given; null means never. A key with more than
   * `read`, or a longer life, takes `password` if the login was more than `fresh_session_secs` of
   * `config()` ago, and `totp_code` if TOTP is on.
   * Throws `Problem`: `password_required`, `login_failed`, `security_hold`, `totp_required`,
   * `totp_invalid`, `login_throttled`, `scope_missing`, `api_key_limit`, `daily_limit`,
   * `session_required`.
   *
   * @example
   * ```ts
   * const key = await client.auth.createApiKey({ label: "bot", scopes: ["read", "trade"] });
   * const bot = client.withApiKey({ apiKeyId: key.api_key_id, secret: key.secret });
   * ```
   *
   * `limits` bounds what the key can lose, for example to 1 000 USDC a day on one venue:
   *
   * @example
   * ```ts
   * await client.auth.createApiKey({
   *   label: "bot",
   *   scopes: ["read", "trade"],
   *   limits: { venues: ["venue_one"], max_usdc_per_day: 1_000_000_000n },
   *   require_idempotency: true,
   * });
   * ```
   */
  createApiKey(
    body: {
      label: string;
      scopes: Scope[];
      expires_at?: string | null;
      allowed_ips?: string[];
      limits?: Partial<KeyLimits>;
      require_idempotency?: boolean;
      /** Asks for a key with the scope withdraw, which works once the operator has approved it. */
      request_approval?: boolean;
      /** It pays only addresses of the address book, and with TOTP on it needs no operator. */
      only_listed?: boolean;
      /** With `only_listed`: of these, those that are listed. */
      addresses?: string[] | null;
      password?: string;
      totp_code?: string;
    },
    options: CallOptions = {},
  ): Promise<NewApiKey> {
    const fields = pick(body, {
      label: true,
      scopes: true,
      expires_at: true,
      allowed_ips: true,
      limits: true,
      require_idempotency: true,
      request_approval: true,
      only_listed: true,
      addresses: true,
      password: true,
      totp_code: true,
    });
    return this.#transport.call({ method: "POST", path: "/auth/api-keys", body: fields, options });
  }

  /**
   * Lists the user's API keys without their secrets, newest first, including revoked ones.
   *
   * @example
   * ```ts
   * for await (const key of client.auth.apiKeys()) {
   *   if (key.last_used_at === null) await client.auth.revokeApiKey(key);
   * }
   * ```
   */
  apiKeys({ limit, last_cursor }: PageOptions = {}, options: CallOptions = {}): Pages<ApiKey> {
    return new Pages(this.#transport, "/auth/api-keys", { limit, last_cursor }, options);
  }

  /**
   * Revokes an API key. Writes fail at once; reads and open sockets end within 5 s. Its open quotes
   * are cancelled. A session can revoke every key of the user, a key only itself.
   * Idempotent, so the client retries it. Throws `Problem`: `api_key_unknown_id`,
   * `session_required`.
   *
   * @example
   * ```ts
   * const api_key_id = "7f0c0000-0000-4000-8000-000000000000";
   * const { revoked_at } = await client.auth.revokeApiKey({ api_key_id });
   * ```
   */
  revokeApiKey({ api_key_id }: { api_key_id: string }, options: CallOptions = {}): Promise<ApiKey> {
    return this.#transport.call({
      method: "DELETE",
      path: "/auth/api-keys",
      body: { api_key_id },
      idempotent: true,
      options,
    });
  }

  /**
   * Creates a ticket, which opens one websocket within 30 s. The ticket of an API key has the
   * scopes of the key; the ticket of a session has only read. `client.bookStream`, `venueStream`
   * and `accountStream` create their own tickets; use this one with your own websocket.
   *
   * @example
   * ```ts
   * const { ticket } = await client.auth.wsTicket();
   * const socket = new WebSocket(`wss://rfq.example.com/account/stream?ticket=${ticket}`);
   * ```
   */
  wsTicket(options: CallOptions = {}): Promise<Ticket> {
    const { credential } = this.#transport;
    const signed = credential !== null && "apiKeyId" in credential;
    // Safe to retry, because an unused ticket expires.
    return this.#transport.call({
      method: "POST",
      path: signed ? "/auth/ws-ticket/signed" : "/auth/ws-ticket",
      idempotent: true,
      options,
    });
  }

  /**
   * Returns the owner, the kind and the scopes of the credential. Use it to test a signer: the
   * `Problem` `signature_invalid` contains the text that the service expected in `body.signed`.
   *
   * @example
   * ```ts
   * const { credential, api_key_id } = await client.auth.whoami();
   * ```
   */
  whoami(options: CallOptions = {}): Promise<WhoAmI> {
    return this.#transport.call({ method: "GET", path: "/auth/whoami", options });
  }

  /**
   * Lists logins, key changes, withdrawals and operator actions on the account, newest first.
   *
   * @example
   * ```ts
   * const { items } = await client.auth.auditEvents({ limit: 20 }).page();
   * for (const event of items) console.log(event.created_at, event.kind, event.actor, event.ip);
   * ```
   */
  auditEvents(
    { limit, last_cursor }: PageOptions = {},
    options: CallOptions = {},
  ): Pages<AuditEvent> {
    return new Pages(this.#transport, "/auth/get-audit-events", { limit, last_cursor }, options);
  }
}
