/**
 * A value that public routes serve from memory, so that callers without a credential cannot make
 * the service read it more often than about once in `freshMs` in each isolate.
 *
 * No request awaits the read of another one, because it never settles if that one is cancelled.
 * While one reads again, the others use the earlier value.
 */
/** Values older by this factor are not served. A read that never ends must not hide an outage. */
const MAX_AGE = 3;

type Known<T> = { readonly value: T; readonly readAt: number; readingSince: number };

export class Remembered<T> {
  readonly #freshMs: number;
  /** By the bindings, which the requests of an isolate share. */
  readonly #values = new WeakMap<object, Known<T>>();

  constructor(freshMs = 1_000) {
    this.#freshMs = freshMs;
  }

  /** `read` receives the earlier value, from which it may go on. */
  async get(env: object, read: (earlier: T | undefined) => Promise<T>): Promise<T> {
    const now = Date.now();
    const known = this.#values.get(env);
    if (known !== undefined) {
      if (now - known.readAt < this.#freshMs) return known.value;
      const isBeingRead = now - known.readingSince < this.#freshMs;
      if (isBeingRead && now - known.readAt < MAX_AGE * this.#freshMs) return known.value;
      known.readingSince = now;
    }
    const value = await read(known?.value);
    this.#values.set(env, { value, readAt: now, readingSince: 0 });
    return value;
  }
}
