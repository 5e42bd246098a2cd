/** The watcher of one chain: an alarm loop around `watchChain`. It remembers nothing but its chain's name. */
import { DurableObject } from "cloudflare:workers";
import { describe } from "../chain/rpc.ts";
import { clearAlert, raiseAlert } from "../chain/alert.ts";
import { config } from "../platform/config.ts";
import { errorFields, log } from "../platform/log.ts";
import { pushHints } from "../streams/hints.ts";
import { faultHook } from "../platform/fault.ts";
import { watchChain } from "./watch-chain.ts";

/** Rounds that may fail before the operator is told that the chain cannot be read. */
const FAILURES_TOLERATED = 10;
const HALTED_POLL_MS = 10_000;

export class ChainWatcher extends DurableObject<Env> {
  #failures = 0;

  /** Starts the loop, or shortens the wait. Anything that knows of news may call it; none has to. */
  async wake(chain: string): Promise<void> {
    await this.ctx.storage.put("chain", chain);
    const due = await this.ctx.storage.getAlarm();
    if (due === null || due > Date.now() + 1_000) await this.ctx.storage.setAlarm(Date.now());
  }

  override async alarm(): Promise<void> {
    const name = await this.ctx.storage.get<string>("chain");
    const settings = config(this.env);
    const chain = settings.CHAINS.find((candidate) => candidate.chain === name);
    if (chain === undefined) return;
    let waitMs = chain.poll_ms;
    try {
      const cut = faultHook(this.env);
      const round = await watchChain({
        db: this.env.DB,
        settings,
        chain,
        push: (events) => pushHints(this.env, events),
        ...(cut === undefined ? {} : { cut }),
      });
      if (round.state === "halted") waitMs = HALTED_POLL_MS;
      if (round.behind) waitMs = 0;
      if (this.#failures >= FAILURES_TOLERATED) await clearAlert(this.env.DB, "chain_unreachable", chain.chain);
      this.#failures = 0;
    } catch (error) {
      this.#failures++;
      log("warn", "watcher.round_failed", { chain: chain.chain, failures: this.#failures, ...errorFields(error) });
      if (this.#failures === FAILURES_TOLERATED) {
        await raiseAlert(this.env.DB, "chain_unreachable", chain.chain, describe(error)).catch(() => {});
      }
    } finally {
      // In `finally`: an alarm that throws is retried six times and then never again.
      await this.ctx.storage.setAlarm(Date.now() + waitMs);
    }
  }
}
