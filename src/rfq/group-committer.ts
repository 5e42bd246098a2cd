/**
 * The group committer of one book. Commands that arrive while a batch is in flight are committed
 * together in the next one. Users take turns, so no user's commands fill the groups alone.
 *
 * No batch starts while the outcome of another is unknown. An operation that violates a constraint
 * never fails the other operations of its group.
 */
import {
  claimFence,
  type Group,
  groupOf,
  type NotCommitted,
  OutcomeUnknown,
} from "../platform/commit.ts";
import { errorFields, log } from "../platform/log.ts";
import { unavailable } from "../platform/problem.ts";
import { type GroupDone, commitOperations } from "./book-group.ts";
import { type Result, reject } from "./command.ts";
import { FairQueue } from "./fair-queue.ts";
import type { Operation } from "./operation.ts";

export type CommitterSettings = {
  readonly asset: string;
  /**
   * How long a batch waits for more commands, in milliseconds, when the batch before it had
   * several.
   */
  readonly waitMs: number;
  readonly maxOperations: number;
  /**
   * Called after each commit and before its results are delivered, so that events are pushed before
   * the caller knows.
   */
  readonly onCommitted: (done: GroupDone) => Promise<void>;
  /** Called when a batch failed or its outcome is unknown: expiries and events may be overdue. */
  readonly onFailed: () => void;
  /** Called when a group of unknown outcome turns out to have committed. */
  readonly onFoundCommitted: (group: Group) => Promise<void>;
};

type Waiting = {
  readonly userId: string;
  readonly operation: Operation;
  readonly tries: number;
  readonly resolve: (result: Result) => void;
};

/**
 * Commands that a book queues. Beyond this D1 is so far behind that more commands would only time
 * out.
 */
const MAX_WAITING = 2_000;
/**
 * A guard can lose to a condition that no longer holds when the reason is read. Then the operation
 * is retried.
 */
const MAX_TRIES = 4;

const UNAVAILABLE: Result = { ok: false, problem: unavailable("none").data };

export class GroupCommitter {
  readonly #db: D1Database;
  readonly #settings: CommitterSettings;
  readonly #waiting = new FairQueue<Waiting>();
  #running: Promise<void> | undefined;
  #lastSize = 0;

  constructor(db: D1Database, settings: CommitterSettings) {
    this.#db = db;
    this.#settings = settings;
  }

  submit(operation: Operation): Promise<Result> {
    if (this.#waiting.size >= MAX_WAITING) return Promise.resolve(UNAVAILABLE);
    return new Promise((resolve) => {
      this.#waiting.push({ userId: operation.userId, operation, tries: 1, resolve });
      this.#start();
    });
  }

  /**
   * Commits a group without commands, which ends what is due. Resolves when the queue is empty.
   */
  async expire(): Promise<void> {
    if (this.#running === undefined) this.#running = this.#run(true);
    await this.#running;
  }

  #start(): void {
    this.#running ??= this.#run(false);
  }

  async #run(expireFirst: boolean): Promise<void> {
    try {
      if (expireFirst) await this.#commit([]);
      while (this.#waiting.size > 0) {
        if (this.#settings.waitMs > 0 && (this.#lastSize > 1 || this.#waiting.size > 1))
          await scheduler.wait(this.#settings.waitMs);
        const group = this.#waiting.take(this.#settings.maxOperations);
        this.#lastSize = group.length;
        await this.#commit(group);
      }
    } finally {
      this.#running = undefined;
      // A command may have arrived after the queue was last read.
      if (this.#waiting.size > 0) this.#start();
    }
  }

  async #commit(group: readonly Waiting[]): Promise<void> {
    try {
      const outcome = await commitOperations(
        this.#db,
        this.#settings.asset,
        group.map((waiting) => waiting.operation),
      );
      if (outcome.committed) await this.#deliver(group, outcome);
      else await this.#again(group, outcome);
    } catch (error) {
      await this.#failed(group, error);
    }
  }

  async #deliver(group: readonly Waiting[], done: GroupDone): Promise<void> {
    await this.#settings.onCommitted(done);
    for (const waiting of group) {
      const result = waiting.operation.result(done.effects);
      if (result !== undefined) waiting.resolve(result);
      // Not awaited: finding the reason of a rejection must not delay the next batch.
      else void this.#reject(waiting);
    }
  }

  async #reject(waiting: Waiting): Promise<void> {
    try {
      const result = await waiting.operation.rejection(this.#db);
      if (result !== undefined) return waiting.resolve(result);
    } catch (error) {
      log("error", "rfq.rejection_failed", errorFields(error));
    }
    if (waiting.tries >= MAX_TRIES) return waiting.resolve(UNAVAILABLE);
    this.#waiting.push({ ...waiting, tries: waiting.tries + 1 });
    this.#start();
  }

  /**
   * The batch did not commit. One operation violated a constraint, so each is run alone to find
   * which.
   */
  async #again(group: readonly Waiting[], outcome: NotCommitted): Promise<void> {
    this.#settings.onFailed();
    log("error", "rfq.group_not_committed", {
      reason: outcome.reason,
      operations: group.length,
      ...errorFields(outcome.cause),
    });
    if (outcome.reason === "constraint" && group.length > 1) {
      for (const waiting of group) await this.#commit([waiting]);
      return;
    }
    if (outcome.reason === "constraint") {
      for (const waiting of group)
        waiting.resolve(
          reject("internal", "The command could not be carried out.", { outcome: "none" }),
        );
      return;
    }
    for (const waiting of group) if (waiting.tries >= MAX_TRIES) waiting.resolve(UNAVAILABLE);
    // All at once, so that each user's order of arrival is kept.
    this.#waiting.putBack(
      group
        .filter(({ tries }) => tries < MAX_TRIES)
        .map((waiting) => ({ ...waiting, tries: waiting.tries + 1 })),
    );
  }

  async #failed(group: readonly Waiting[], error: unknown): Promise<void> {
    log("error", "rfq.group_failed", { operations: group.length, ...errorFields(error) });
    for (const waiting of group)
      waiting.resolve({ ok: false, problem: unavailable("unknown").data });
    this.#settings.onFailed();
    if (!(error instanceof OutcomeUnknown)) return;
    const { groupId } = error;
    let outcome = await claimFence(this.#db, groupId);
    while (outcome === "unknown") {
      await scheduler.wait(1_000);
      outcome = await claimFence(this.#db, groupId);
    }
    // Without this, its events would wait for cron.
    if (outcome === "committed") await this.#settings.onFoundCommitted(groupOf(groupId));
  }
}
