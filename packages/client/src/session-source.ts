/** A session that is renewed with email and password, which stay in the memory of this process. */

type Session = { access_token: string; expires_in: number };

/** Logs in again this long before the session expires. */
const MARGIN_MS = 60_000;

/** Gives the token of a session that is valid, and logs in when there is none. */
export class SessionSource {
  readonly #logIn: () => Promise<Session>;
  #token: Promise<string> | null = null;
  #renewAt = 0;
  #generation = 0;

  constructor(logIn: () => Promise<Session>) {
    this.#logIn = logIn;
  }

  /** Calls that wait at the same time share one login. A failed login is not remembered. */
  token(): Promise<string> {
    if (this.#token !== null && performance.now() < this.#renewAt) return this.#token;
    this.#renewAt = Infinity;
    this.#generation++;
    const token = this.#logIn().then(
      ({ access_token, expires_in }) => {
        const lifeMs = expires_in * 1_000;
        this.#renewAt = performance.now() + Math.max(lifeMs - MARGIN_MS, lifeMs / 2);
        return access_token;
      },
      (error: unknown) => {
        this.#token = null;
        throw error;
      },
    );
    this.#token = token;
    return token;
  }

  /** Counts the logins, so that calls which fail together renew the session once. */
  get generation(): number {
    return this.#generation;
  }

  /** The service rejected the session of this generation because it has expired. */
  expired(generation: number): void {
    if (generation === this.#generation) this.#token = null;
  }
}
