/** The payer of one chain: an alarm loop of `payRound`. The newest instance has the lease. */
import { FailureAlert } from "../../platform/failure-alert.ts";
import { uuidv7 } from "../../platform/uuid.ts";
import { activePollMs, type ChainContext, ChainObject } from "../chain-object.ts";
import { pruneRecords, putRecords, type RecordsAsked, recordsSince } from "../recovery-records.ts";
import { pastRetention, type WithdrawalRecord } from "./withdrawal-record.ts";
import type { PayerLevels } from "./payer-context.ts";
import { payRound } from "./pay-round.ts";
import { takeLease } from "./payer-lease.ts";
import { restorePayments, type RestoreReport } from "./restore-payments.ts";

/**
 * Wait of an idle payer. Queue messages and cron wake it earlier. After it, an instance that lost
 * the lease takes it again, in case the new one is gone.
 */
const IDLE_POLL_MS = 30_000;
const RECORDS = "withdrawal:";
const LEVELS = "levels";

export class Payer extends ChainObject {
  protected override readonly role = "payer";
  protected override readonly failing = new FailureAlert("payer_failing", [
    "chain_unreachable",
    "nodes_disagree",
  ]);
  readonly #token = uuidv7();
  #leased = false;
  readonly #levels: PayerLevels = {};

  /** What the last rounds have seen, for metrics. An idle payer is often evicted between them. */
  async levels(): Promise<PayerLevels> {
    return { ...(await this.ctx.storage.get<PayerLevels>(LEVELS)), ...this.#levels };
  }

  /** One page of the operator's `restore`, once the watcher has read the chain again. */
  async restore(name: string, after: number): Promise<RestoreReport> {
    const recordsOf = async (ids: readonly string[]) => {
      const found = new Map<string, WithdrawalRecord>();
      for (const id of ids) {
        const record = await this.ctx.storage.get<WithdrawalRecord>(RECORDS + id);
        if (record !== undefined) found.set(id, record);
      }
      return found;
    };
    return restorePayments(this.contextNamed(name), recordsOf, after);
  }

  /** A page of the recovery records, for a copy outside the account. */
  async records(asked: RecordsAsked) {
    return recordsSince<WithdrawalRecord>(this.ctx.storage, RECORDS, asked);
  }

  /**
   * Saves to the object's own storage, which a restore of the database leaves as it is. `restore`
   * believes no record whose payment id is not its own.
   */
  async putRecords(records: readonly WithdrawalRecord[]): Promise<void> {
    await putRecords(
      this.ctx.storage,
      records.map((record) => [RECORDS + record.paymentId, record] as const),
    );
  }

  protected override async round(base: ChainContext): Promise<{ outcome: string; waitMs: number }> {
    const { db, chain } = base;
    if (!this.#leased) await takeLease(db, chain.chain, this.#token);
    this.#leased = true;
    const { status } = await payRound({
      ...base,
      token: this.#token,
      saveRecords: (records) => this.putRecords(records),
      levels: this.#levels,
    });
    await this.ctx.storage.put(LEVELS, this.#levels);
    await pruneRecords<WithdrawalRecord>(this.ctx.storage, RECORDS, (records) =>
      pastRetention(db, records),
    );
    if (status === "lease_lost") this.#leased = false;
    return { outcome: status, waitMs: status === "busy" ? activePollMs(chain) : IDLE_POLL_MS };
  }
}
