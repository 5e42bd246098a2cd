/** The watcher of one chain: an alarm loop of `watchChain`, and recovery records of addresses. */
import { type ChainContext, ChainObject } from "../chain-object.ts";
import {
  listRecords,
  pruneRecords,
  putRecords,
  type RecordsAsked,
  recordsSince,
  RETENTION_MS,
} from "../recovery-records.ts";
import {
  type AddressRecord,
  blockBefore,
  missingAddresses,
  restoreAddresses,
  readLostUsers,
} from "./restore-addresses.ts";
import { recheckFloors } from "./small-deposits.ts";
import { recheckOldBlocks, rescanOnCommand, rescanFrom } from "./rescan.ts";
import { FailureAlert } from "../../platform/failure-alert.ts";
import { ScanPace } from "../../chain/scan-pace.ts";
import { watchChain } from "./watch-chain.ts";
import type { WatcherContext } from "./commit-move.ts";

const HALTED_POLL_MS = 10_000;
const RECORDS = "address:";
/** Ranges that one call of `restore` reads. The operator repeats it while blocks are left. */
const RANGES_PER_RESTORE = 200;

/** Wait after all blocks that are a day old have been rechecked. */
const RECHECK_EVERY_MS = 600_000;

export class ChainWatcher extends ChainObject {
  protected override readonly role = "watcher";
  protected override readonly failing = new FailureAlert("chain_unreachable");
  #recheckAt = 0;
  /** Settings do not change while the object runs. */
  #floorsChecked = false;
  readonly #pace = new ScanPace();
  /** Blocks from the highest head to the one that enough endpoints have reached. */
  #witnessLag: number | undefined;

  /** What the last round has seen, for metrics. */
  async levels() {
    return { witnessLag: this.#witnessLag };
  }

  /** Saves the recovery record of an address. This happens before a user receives the address. */
  async saveAddressRecord(record: Omit<AddressRecord, "createdAt">): Promise<void> {
    const stored: AddressRecord = { ...record, createdAt: Date.now() };
    await this.ctx.storage.put(RECORDS + record.address, stored);
  }

  /** A page of the recovery records, for a copy outside the account. */
  async records(asked: RecordsAsked) {
    return recordsSince<AddressRecord>(this.ctx.storage, RECORDS, asked);
  }

  /** Takes records of such a copy. Their addresses were derived again. */
  async putRecords(records: readonly AddressRecord[]): Promise<void> {
    await putRecords(
      this.ctx.storage,
      records.map((record) => [RECORDS + record.address, record] as const),
    );
  }

  /** Carries out the operator's `restore`: restores lost addresses and credits their deposits. */
  async restore(name: string) {
    const context = this.#watching(this.contextNamed(name));
    let rewritten = 0;
    for await (const page of listRecords<AddressRecord>(this.ctx.storage, RECORDS)) {
      const missing = await missingAddresses(context, page);
      if (missing.length === 0) continue;
      // Stored before the addresses, so that a repeated restore still reads these blocks.
      const due = (await this.ctx.storage.get<number>("rescan_from")) ?? Number.POSITIVE_INFINITY;
      const oldest = Math.min(...missing.map(({ createdAt }) => createdAt));
      const from = await blockBefore(context, oldest);
      await this.ctx.storage.put("rescan_from", Math.min(due, from));
      await restoreAddresses(context, missing);
      rewritten += missing.length;
    }
    return {
      rewritten,
      /** Blocks above this one are not read yet, so run the command again. Null: all are read. */
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

  /** Rechecks small deposits after a change of their minimum, then old blocks. True: go on. */
  async #rescanOldBlocks(context: WatcherContext): Promise<boolean> {
    this.#floorsChecked ||= !(await recheckFloors(context));
    if (!this.#floorsChecked) return true;
    if (await rescanOnCommand(context)) return true;
    if (Date.now() < this.#recheckAt) return false;
    const more = await recheckOldBlocks(context);
    if (!more) this.#recheckAt = Date.now() + RECHECK_EVERY_MS;
    return more;
  }

  #watching(context: ChainContext): WatcherContext {
    return { ...context, pace: this.#pace };
  }

  protected override async round(base: ChainContext): Promise<{ outcome: string; waitMs: number }> {
    const context = this.#watching(base);
    try {
      const round = await watchChain(context);
      await pruneRecords<AddressRecord>(this.ctx.storage, RECORDS, async (records) =>
        [...records].flatMap(([key, { createdAt }]) =>
          createdAt < Date.now() - RETENTION_MS ? [key] : [],
        ),
      );
      if (round.status === "halted") return { outcome: "halted", waitMs: HALTED_POLL_MS };
      this.#witnessLag = round.witnessLag;
      const more = await this.#rescanOldBlocks(context);
      return { outcome: "followed", waitMs: round.behind || more ? 0 : context.chain.poll_ms };
    } catch (error) {
      this.#pace.failed();
      throw error;
    }
  }
}
