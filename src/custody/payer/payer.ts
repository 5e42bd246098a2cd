/**
 * The payer of one chain: a Durable Object that runs `payRound` in an alarm loop. The instance that
 * started last has the lease.
 */
import { DurableObject } from "cloudflare:workers";
import { activePollMs } from "../../chain/active-poll.ts";
import { EndpointAlerts } from "../../chain/endpoint-alerts.ts";
import { FailureAlert } from "../../chain/failure-alert.ts";
import { describe } from "../../chain/rpc.ts";
import { config } from "../../platform/config.ts";
import { counts } from "../../platform/counts.ts";
import { errorFields, log } from "../../platform/log.ts";
import { uuidv7 } from "../../platform/uuid.ts";
import { notifyStreams } from "../../streams/notify.ts";
import { failpointOf } from "../../platform/failpoint.ts";
import { pruneRecords } from "../recovery-records.ts";
import { pastRetention } from "./withdrawal-record.ts";
import type { PayerLevels } from "./payer-context.ts";
import { payRound } from "./pay-round.ts";
import { takeLease } from "./payer-lease.ts";
import type { WithdrawalRecord } from "./withdrawal-record.ts";
import { restorePayments, type RestoreReport } from "./restore-payments.ts";

/** Wait of an idle payer. Queue messages and cron wake it earlier. */
const IDLE_POLL_MS = 30_000;
/** Wait after the lease is lost. Then this instance takes it again, in case the new one is gone. */
const LEASE_LOST_WAIT_MS = 30_000;
const RECORDS = "withdrawal:";

export class Payer extends DurableObject<Env> {
  readonly #token = uuidv7();
  #leased = false;
  readonly #failing = new FailureAlert("payer_failing");
  readonly #endpoints = new EndpointAlerts("payer");
  /** The endpoint that the next round asks first. Another one each time, because one may lie. */
  #firstEndpoint = 0;
  readonly #levels: PayerLevels = {};

  /** Starts the next round now, because there may be something to pay on the chain. */
  async wake(chain: string): Promise<void> {
    await this.ctx.storage.put("chain", chain);
    const due = await this.ctx.storage.getAlarm();
    if (due === null || due > Date.now() + 1_000) await this.ctx.storage.setAlarm(Date.now());
  }

  /** What the last rounds have seen, for metrics. */
  async levels(): Promise<PayerLevels> {
    return this.#levels;
  }

  /** One page of the operator's `restore`, once the watcher has read the chain again. */
  async restore(name: string, after: number): Promise<RestoreReport> {
    const settings = config(this.env);
    const chain = settings.CHAINS.find((candidate) => candidate.chain === name);
    if (chain === undefined) throw new Error(`the settings have no chain ${name}`);
    return restorePayments(
      { db: this.env.DB, settings, chain, push: (events) => notifyStreams(this.env, events) },
      async (ids) => {
        const found = new Map<string, WithdrawalRecord>();
        for (const id of ids) {
          const record = await this.ctx.storage.get<WithdrawalRecord>(RECORDS + id);
          if (record !== undefined) found.set(id, record);
        }
        return found;
      },
      after,
    );
  }

  /** Saves to the object's own storage, which a restore of the database leaves as it is. */
  async #saveRecords(records: readonly WithdrawalRecord[]): Promise<void> {
    await this.ctx.storage.put(
      Object.fromEntries(records.map((record) => [RECORDS + record.paymentId, record])),
    );
  }

  override async alarm(): Promise<void> {
    const name = await this.ctx.storage.get<string>("chain");
    const settings = config(this.env);
    const chain = settings.CHAINS.find((candidate) => candidate.chain === name);
    if (chain === undefined) return;
    let waitMs = activePollMs(chain);
    let outcome = "failed";
    try {
      if (!this.#leased) await takeLease(this.env.DB, chain.chain, this.#token);
      this.#leased = true;
      const failpoint = failpointOf(this.env);
      const round = await payRound({
        db: this.env.DB,
        settings,
        chain,
        token: this.#token,
        firstEndpoint: this.#firstEndpoint++,
        push: (events) => notifyStreams(this.env, events),
        saveRecords: (records) => this.#saveRecords(records),
        levels: this.#levels,
        ...(failpoint === undefined ? {} : { failpoint }),
      });
      outcome = round.status;
      await pruneRecords<WithdrawalRecord>(this.ctx.storage, RECORDS, (records) =>
        pastRetention(this.env.DB, records),
      );
      if (round.status === "idle" || round.status === "halted") waitMs = IDLE_POLL_MS;
      if (round.status === "lease_lost") {
        this.#leased = false;
        waitMs = LEASE_LOST_WAIT_MS;
      }
      await this.#failing.succeeded(this.env.DB, chain.chain);
      await this.#endpoints.report(this.env.DB, chain);
    } catch (error) {
      await this.#failing.failed(this.env.DB, chain.chain, describe(error));
      log("warn", "payer.round_failed", {
        chain: chain.chain,
        failures: this.#failing.failures,
        ...errorFields(error),
      });
    } finally {
      counts.count("rfq_rounds_total", { verb: "pay", outcome, chain: chain.chain });
      counts.send(this.env, (work) => this.ctx.waitUntil(work));
      await this.ctx.storage.setAlarm(Date.now() + waitMs);
    }
  }
}
