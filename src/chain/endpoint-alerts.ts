/** Raises and closes the alerts about RPC endpoints that do not answer while others do. */
import { clearAlert, raiseAlert } from "../platform/alert.ts";
import type { ChainConfig } from "../platform/config.ts";
import { NOW } from "../platform/commit.ts";
import { all, sql } from "../platform/sql.ts";
import { hostOf } from "./rpc.ts";
import { lastingFailure } from "./rpc-transport.ts";

/**
 * The alerts of one Durable Object. Their subject names it, because another one may run elsewhere
 * and call other methods: `<chain>:<object>:<host>`.
 */
export class EndpointAlerts {
  readonly #object: "watcher" | "payer";
  /** Hosts with an open alert. Undefined before the first report. */
  #open: Set<string> | undefined;

  constructor(object: "watcher" | "payer") {
    this.#object = object;
  }

  async report(db: D1Database, { chain, rpc_urls }: ChainConfig): Promise<void> {
    const subjects = `${chain}:${this.#object}:`;
    if (this.#open === undefined) {
      // An earlier instance raised them, perhaps for endpoints that have been replaced.
      await all(
        db,
        sql`UPDATE alerts SET resolved_at = ${NOW} WHERE kind = 'endpoint_failing'
          AND substr(subject, 1, ${subjects.length}) = ${subjects} AND resolved_at IS NULL`,
      );
      this.#open = new Set();
    }
    for (const url of rpc_urls) {
      const host = hostOf(url);
      const failure = lastingFailure(url);
      if ((failure !== undefined) === this.#open.has(host)) continue;
      if (failure === undefined) {
        await clearAlert(db, "endpoint_failing", subjects + host);
        this.#open.delete(host);
      } else {
        await raiseAlert(db, "endpoint_failing", subjects + host, detailOf(host, failure));
        this.#open.add(host);
      }
    }
  }
}

function detailOf(host: string, { method, reason }: { method: string; reason: string }): string {
  return (
    `${host} does not answer ${method} (${reason}), for a minute or longer. The others go on ` +
    "without it. Ask its provider, or replace it: npm run wrangler -- secret put RPC_URLS"
  );
}
