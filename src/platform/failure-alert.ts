/** Alerts of Durable Objects about rounds that fail. */
import { clearAlert, raiseAlert } from "./alert.ts";
import type { AlertKind } from "./alert-kinds.ts";

/** Failed rounds in a row after which the alert is raised. */
const FAILURES_TOLERATED = 10;

export class FailureAlert {
  readonly #kind: AlertKind;
  #failures = 0;
  /** Whether the alert may be open. An earlier instance of the object may have raised it. */
  #mayBeOpen = true;

  constructor(kind: AlertKind) {
    this.#kind = kind;
  }

  get failures(): number {
    return this.#failures;
  }

  async succeeded(db: D1Database, chain: string): Promise<void> {
    this.#failures = 0;
    if (!this.#mayBeOpen) return;
    await clearAlert(db, this.#kind, chain);
    this.#mayBeOpen = false;
  }

  async failed(db: D1Database, chain: string, reason: string): Promise<void> {
    this.#failures++;
    if (this.#failures !== FAILURES_TOLERATED) return;
    this.#mayBeOpen = true;
    const detail = `${FAILURES_TOLERATED} rounds in a row failed: ${reason}`;
    await raiseAlert(db, this.#kind, chain, detail).catch(() => {
      // The next round counts again, so that the alert is not lost with the database.
      this.#failures = 0;
    });
  }
}
