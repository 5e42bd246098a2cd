/** Alerts of Durable Objects about rounds that fail. */
import { clearAlert, raiseAlert } from "./alert.ts";
import type { AlertKind } from "./alert-kinds.ts";
import { listed, sql } from "./sql.ts";

/** Failed rounds in a row after which the alert is raised, and after which that is tried again. */
const FAILURES_TOLERATED = 10;

export class FailureAlert {
  readonly #kind: AlertKind;
  readonly #causes: readonly AlertKind[];
  #failures = 0;
  /** Whether the alert may be open. An earlier instance of the object may have raised it. */
  #mayBeOpen = true;

  /** `causes`: alerts about the same chain that say why already, so nobody is called twice. */
  constructor(kind: AlertKind, causes: readonly AlertKind[] = []) {
    this.#kind = kind;
    this.#causes = causes;
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
    if (this.#failures % FAILURES_TOLERATED !== 0) return;
    this.#mayBeOpen = true;
    const detail = `${this.#failures} rounds in a row failed: ${reason}`;
    const known = sql`SELECT 1 FROM alerts WHERE kind IN (${listed(this.#causes)})
      AND subject = ${chain} AND resolved_at IS NULL`;
    // A database that does not answer is asked again.
    await raiseAlert(db, this.#kind, chain, detail, sql`NOT EXISTS (${known})`).catch(() => {});
  }
}
