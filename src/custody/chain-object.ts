/** What watcher and payer share: an alarm loop, with alerts about failing rounds and endpoints. */
import { DurableObject } from "cloudflare:workers";
import { EndpointAlerts } from "../chain/endpoint-alerts.ts";
import type { FailureAlert } from "../platform/failure-alert.ts";
import { describe } from "../chain/rpc.ts";
import { type ChainConfig, type Config, config } from "../platform/config.ts";
import { counts } from "../platform/counts.ts";
import { type Failpoint, failpointOf } from "../platform/failpoint.ts";
import { errorFields, log } from "../platform/log.ts";
import type { StreamEvent } from "../streams/event-log.ts";
import { notifyStreams } from "../streams/notify.ts";

/** Context that every step of a chain's object receives. */
export type ChainContext = {
  readonly db: D1Database;
  readonly settings: Config;
  readonly chain: ChainConfig;
  readonly push: (events: readonly StreamEvent[]) => Promise<void>;
  /** Index of the RPC endpoint to ask first. Another one in each round, because one may lie. */
  readonly firstEndpoint?: number;
  /** Set only by tests, which end the process there. */
  readonly failpoint?: Failpoint | undefined;
};

type Round = { readonly outcome: string; readonly waitMs: number };

/** Pause of a payer that has work, and after failed rounds: ten of them raise an alert in time. */
export const activePollMs = ({ poll_ms }: Pick<ChainConfig, "poll_ms">) => Math.min(poll_ms, 4_000);

export abstract class ChainObject extends DurableObject<Env> {
  protected abstract readonly role: "watcher" | "payer";
  protected abstract readonly failing: FailureAlert;
  readonly #endpoints = new EndpointAlerts();
  #firstEndpoint = 0;

  /** One round. Returns its outcome for metrics, and the wait before the next one. */
  protected abstract round(context: ChainContext): Promise<Round>;

  /** Starts the loop, or starts the next round now. */
  async wake(chain: string): Promise<void> {
    await this.ctx.storage.put("chain", chain);
    const due = await this.ctx.storage.getAlarm();
    if (due === null || due > Date.now() + 1_000) await this.ctx.storage.setAlarm(Date.now());
  }

  /** Undefined if the settings do not contain the chain. */
  #contextOf(name: string | undefined): ChainContext | undefined {
    const settings = config(this.env);
    const chain = settings.CHAINS.find((candidate) => candidate.chain === name);
    if (chain === undefined) return undefined;
    return {
      db: this.env.DB,
      settings,
      chain,
      firstEndpoint: this.#firstEndpoint,
      push: (events) => notifyStreams(this.env, events),
      failpoint: failpointOf(this.env),
    };
  }

  protected contextNamed(name: string): ChainContext {
    const context = this.#contextOf(name);
    if (context === undefined) throw new Error(`the settings have no chain ${name}`);
    return context;
  }

  override async alarm(): Promise<void> {
    this.#firstEndpoint++;
    const context = this.#contextOf(await this.ctx.storage.get<string>("chain"));
    if (context === undefined) return;
    const { db, chain, settings } = context;
    let round: Round = { outcome: "failed", waitMs: activePollMs(chain) };
    try {
      const done = await this.round(context);
      await this.failing.succeeded(db, chain.chain);
      await this.#endpoints.report(db, this.role, chain, settings);
      round = done;
    } catch (error) {
      await this.failing.failed(db, chain.chain, describe(error));
      log("warn", `${this.role}.round_failed`, {
        chain: chain.chain,
        failures: this.failing.failures,
        ...errorFields(error),
      });
    } finally {
      const verb = this.role === "payer" ? "pay" : "watch";
      counts.count("rfq_rounds_total", { verb, outcome: round.outcome, chain: chain.chain });
      counts.send(this.env, (work) => this.ctx.waitUntil(work));
      // In `finally`, because an alarm that throws is retried six times and then dropped.
      await this.ctx.storage.setAlarm(Date.now() + round.waitMs);
    }
  }
}
