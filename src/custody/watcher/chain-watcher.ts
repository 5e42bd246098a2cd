/**
 * The watcher of one chain: a Durable Object that runs `watchChain` in an alarm loop. Its storage
 * also contains the recovery records of deposit addresses.
 */
import { DurableObject } from "cloudflare:workers";
import { activePollMs } from "../../chain/active-poll.ts";
import { describe } from "../../chain/rpc.ts";
import { EndpointAlerts } from "../../chain/endpoint-alerts.ts";
import { FailureAlert } from "../../chain/failure-alert.ts";
import { config } from "../../platform/config.ts";
import { counts } from "../../platform/counts.ts";
import { errorFields, log } from "../../platform/log.ts";
import { notifyStreams } from "../../streams/notify.ts";
import { failpointOf } from "../../platform/failpoint.ts";
import { listRecords, RETENTION_MS, pruneRecords } from "../recovery-records.ts";
import {
  type AddressRecord,
  blockBefore,
  type LostUser,
  missingAddresses,
  restoreAddresses,
  readLostUsers,
} from "./restore-addresses.ts";
import { recheckFloors } from "./recheck-floors.ts";
import { recheckOldBlocks, rescanOnCommand, rescanFrom } from "./rescan.ts";
import { ScanPace } from "../../chain/scan-pace.ts";
import { AddressFilter } from "./address-filter.ts";
import { watchChain } from "./watch-chain.ts";
import type { WatcherContext } from "./commit-move.ts";

const HALTED_POLL_MS = 10_000;
const RECORDS = "address:";
/** Ranges that one call of `restore` reads. The operator repeats it while blocks are left. */
const RANGES_PER_RESTORE = 200;

/** Wait after all blocks that are a day old have been rechecked. */
const RECHECK_EVERY_MS = 600_000;

/** Members are absent until a round has seen them. */
export type WatcherLevels = {
  /** Blocks from the highest head to the one that enough endpoints have reached. */
  readonly witnessLag?: number;
};

export type AddressReport = {
  readonly rewritten: number;
  /** Blocks above this one are not read yet, so run the command again. Null if all are read. */
  readonly unread_above: number | null;
  readonly lost_users: readonly LostUser[];
};

export class ChainWatcher extends DurableObject<Env> {
  readonly #unreachable = new FailureAlert("chain_unreachable");
  readonly #endpoints = new EndpointAlerts("watcher");
  #recheckAt = 0;
  /** Settings do not change while the object runs. */
  #floorsChecked = false;
  readonly #addresses = new AddressFilter();
  readonly #pace = new ScanPace();
  #firstEndpoint = 0;
  #witnessLag: number | undefined;

  /** Starts the loop, or starts the next round now. */
  async wake(chain: string): Promise<void> {
    await this.ctx.storage.put("chain", chain);
    const due = await this.ctx.storage.getAlarm();
    if (due === null || due > Date.now() + 1_000) await this.ctx.storage.setAlarm(Date.now());
  }

  /** What the last round has seen, for metrics. */
  async levels(): Promise<WatcherLevels> {
    return this.#witnessLag === undefined ? {} : { witnessLag: this.#witnessLag };
  }

  /** Saves the recovery record of an address. This happens before a user receives the address. */
  async saveAddressRecord(record: Omit<AddressRecord, "createdAt">): Promise<void> {
    await this.ctx.storage.put<AddressRecord>(RECORDS + record.address, {
      ...record,
      createdAt: Date.now(),
    });
  }

  /** Carries out the operator's `restore`: restores lost addresses and credits their deposits. */
  async restore(name: string): Promise<AddressReport> {
    const context = this.#context(name);
    if (context === undefined) throw new Error(`the settings have no chain ${name}`);
    this.#addresses.clear();
    let rewritten = 0;
    for await (const page of listRecords<AddressRecord>(this.ctx.storage, RECORDS)) {
      const missing = await missingAddresses(context, page);
      if (missing.length === 0) continue;
      // Stored before the addresses, so that a repeated restore still reads these blocks.
      const due = (await this.ctx.storage.get<number>("rescan_from")) ?? Number.POSITIVE_INFINITY;
      const from = await blockBefore(
        context,
        Math.min(...missing.map(({ createdAt }) => createdAt)),
      );
      await this.ctx.storage.put("rescan_from", Math.min(due, from));
      await restoreAddresses(context, missing);
      rewritten += missing.length;
    }
    return {
      rewritten,
      unread_above: await this.#rescan(context),
      lost_users: await readLostUsers(this.env.DB, name),
    };
  }

  async #rescan(context: WatcherContext): Promise<number | null> {
    let above = (await this.ctx.storage.get<number>("rescan_from")) ?? null;
    for (let ranges = 0; above !== null && ranges < RANGES_PER_RESTORE; ranges++) {
      above = await rescanFrom(context, above);
      if (above === null) await this.ctx.storage.delete("rescan_from");
      else await this.ctx.storage.put("rescan_from", above);
    }
    return above;
  }

  /**
   * Checks small deposits after a change of their minimum, then rescans the blocks of a
   * `chain rescan` and those that are a day old. True if more is due.
   */
  async #rescanOldBlocks(context: WatcherContext): Promise<boolean> {
    this.#floorsChecked ||= !(await recheckFloors(context));
    if (!this.#floorsChecked) return true;
    if (await rescanOnCommand(context)) return true;
    if (Date.now() < this.#recheckAt) return false;
    const more = await recheckOldBlocks(context);
    if (!more) this.#recheckAt = Date.now() + RECHECK_EVERY_MS;
    return more;
  }

  #context(name: string | undefined): WatcherContext | undefined {
    const settings = config(this.env);
    const chain = settings.CHAINS.find((candidate) => candidate.chain === name);
    if (chain === undefined) return undefined;
    const failpoint = failpointOf(this.env);
    return {
      db: this.env.DB,
      settings,
      chain,
      addresses: this.#addresses,
      pace: this.#pace,
      firstEndpoint: this.#firstEndpoint,
      push: (events) => notifyStreams(this.env, events),
      ...(failpoint === undefined ? {} : { failpoint }),
    };
  }

  override async alarm(): Promise<void> {
    this.#firstEndpoint++;
    const context = this.#context(await this.ctx.storage.get<string>("chain"));
    if (context === undefined) return;
    const { chain } = context;
    let waitMs = chain.poll_ms;
    let outcome = "failed";
    try {
      const round = await watchChain(context);
      outcome = round.status;
      if (round.status === "followed") this.#witnessLag = round.witnessLag;
      await pruneRecords<AddressRecord>(this.ctx.storage, RECORDS, async (records) =>
        [...records].flatMap(([key, { createdAt }]) =>
          createdAt < Date.now() - RETENTION_MS ? [key] : [],
        ),
      );
      if (round.status === "halted") waitMs = HALTED_POLL_MS;
      const more = round.status === "followed" && (await this.#rescanOldBlocks(context));
      if (round.behind || more) waitMs = 0;
      await this.#unreachable.succeeded(this.env.DB, chain.chain);
      await this.#endpoints.report(this.env.DB, chain);
    } catch (error) {
      this.#pace.failed();
      waitMs = activePollMs(chain);
      await this.#unreachable.failed(this.env.DB, chain.chain, describe(error));
      log("warn", "watcher.round_failed", {
        chain: chain.chain,
        failures: this.#unreachable.failures,
        ...errorFields(error),
      });
    } finally {
      counts.count("rfq_rounds_total", { verb: "watch", outcome, chain: chain.chain });
      counts.send(this.env, (work) => this.ctx.waitUntil(work));
      // In `finally`, because an alarm that throws is retried six times and then dropped.
      await this.ctx.storage.setAlarm(Date.now() + waitMs);
    }
  }
}
