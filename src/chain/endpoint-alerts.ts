/** Alerts of Durable Objects about RPC endpoints that do not answer. */
import { raiseAlert } from "../platform/alert.ts";
import { commandText, type Deployed } from "../platform/command-text.ts";
import { type ChainConfig, witnessesOf } from "../platform/config.ts";
import { NOW } from "../platform/commit.ts";
import { all, sql } from "../platform/sql.ts";
import { hostOf } from "./rpc.ts";
import { lastingFailure } from "./rpc-transport.ts";

const REPLACE = ["secret", "put", "RPC_URLS"];

/** Alerts of one Durable Object. Subjects name it, because another one may call other methods. */
export class EndpointAlerts {
  /** Subjects of the open alerts, as JSON. An earlier instance may have left others. */
  #reported: string | undefined;

  async report(
    db: D1Database,
    object: "watcher" | "payer",
    chain: ChainConfig,
    settings: Deployed,
  ): Promise<void> {
    const prefix = `${chain.chain}:${object}:`;
    const failing = chain.rpc_urls.flatMap((url) => {
      const failure = lastingFailure(url);
      return failure === undefined ? [] : [{ host: hostOf(url), ...failure }];
    });
    const subjects = JSON.stringify(failing.map(({ host }) => prefix + host));
    if (subjects === this.#reported) return;
    await all(
      db,
      sql`UPDATE alerts SET resolved_at = ${NOW} WHERE kind = 'endpoint_failing'
        AND substr(subject, 1, ${prefix.length}) = ${prefix} AND resolved_at IS NULL
        AND subject NOT IN (SELECT value FROM json_each(${subjects}))`,
    );
    const needed = witnessesOf(chain);
    const usable = chain.rpc_urls.length - failing.length;
    for (const { host, method, reason } of failing) {
      const detail =
        `${host} does not answer ${method} (${reason}), for a minute or longer. ` +
        `${usable} of ${chain.rpc_urls.length} endpoints answer all, and what is credited or paid ` +
        `on ${chain.chain} needs ${needed}. ` +
        `Ask its provider, or replace it: ${commandText(settings, "wrangler", ...REPLACE)}`;
      await raiseAlert(db, "endpoint_failing", prefix + host, detail);
    }
    this.#reported = subjects;
  }
}
